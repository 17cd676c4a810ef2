"""Host functions that run out of memory: what they wait for, and that they never deadlock on themselves."""

import textwrap

import children

PREAMBLE = """
import threading
import torch

def tensor(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="rustdev")

def attempt(mib):
    try:
        return len(tensor(mib)) >> 20
    except torch.OutOfMemoryError:
        return "no memory"

started = threading.Event()
host, behind = torch.rustdev.Stream(), torch.rustdev.Stream()
"""


def run(code: str) -> list[str]:
    """What a fresh process with a device of 256 MiB prints; a deadlock ends with the time."""
    done = children.run(PREAMBLE + textwrap.dedent(code), RUSTDEV_MEMORY_LIMIT="256M")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_what_others_left_in_the_cache_is_given_back() -> None:
    code = """
        with torch.rustdev.stream(behind):
            torch.rustdev._sleep(50_000_000)
            tensor(200).fill_(1)
        torch.rustdev.launch_host_func(lambda: print(attempt(220)), host)
        torch.rustdev.synchronize()
        print(torch.rustdev.memory_stats()["num_alloc_retries"])
    """
    assert run(code) == ["220", "1"]


def test_streams_behind_a_host_function_are_not_waited_for() -> None:
    code = """
        torch.rustdev.launch_host_func(lambda: (started.wait(), print(attempt(220)), print(attempt(50))), host)
        behind.wait_stream(host)
        with torch.rustdev.stream(behind):
            tensor(200).fill_(1)
        started.set()
        torch.rustdev.synchronize()
        print(attempt(220))
    """
    assert run(code) == ["no memory", "50", "220"]


def test_host_functions_do_not_wait_for_each_other() -> None:
    code = """
        barrier, results = threading.Barrier(2), []
        for stream in (host, behind):
            torch.rustdev.launch_host_func(lambda: (barrier.wait(), results.append(attempt(300))), stream)
        torch.rustdev.synchronize()
        for result in (*results, attempt(200)):
            print(result)
    """
    assert run(code) == ["no memory", "no memory", "200"]


def test_an_error_that_is_not_caught_is_raised_by_the_next_wait() -> None:
    code = """
        torch.rustdev.launch_host_func(lambda: tensor(300), host)
        try:
            host.synchronize()
        except torch.AcceleratorError as error:
            print("Tried to allocate 300.00 MiB" in str(error))
        host.synchronize()
    """
    assert run(code) == ["True"]


def test_a_tensor_that_cannot_grow_stays_as_it_was() -> None:
    code = """
        x, y = torch.ones(4, device="rustdev"), torch.ones(2, device="rustdev")
        small = torch.ones(2, device="rustdev").untyped_storage()
        calls = [
            lambda: x.resize_(100_000_000),
            lambda: x.set_(small, 0, (100_000_000,), (1,)),
            lambda: torch.add(y, y, out=x.resize_(100_000_000)),
        ]
        for call in calls:
            try:
                call()
            except torch.OutOfMemoryError:
                print(list(x.shape), x.add(1).tolist(), x.untyped_storage().nbytes())
    """
    assert run(code) == ["[4] [2.0, 2.0, 2.0, 2.0] 16"] * 3
