"""A device of 256 MiB that runs out of memory: what host functions wait for, without deadlocks, and what memory pools lend.

Each program runs in a fresh process; a deadlock ends with the time.
"""

import textwrap

import children
import pytest

PREAMBLE = """
import threading
import torch
from torch.rustdev import MemPool, use_mem_pool

def tensor(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="rustdev")

def attempt(mib):
    try:
        return len(tensor(mib)) >> 20
    except torch.OutOfMemoryError:
        return "no memory"

def fill(pool, *mibs):
    with use_mem_pool(pool):
        return [tensor(mib) for mib in mibs]

started = threading.Event()
host, behind = torch.rustdev.Stream(), torch.rustdev.Stream()
"""
#: Programs, and the lines that they print.
PROGRAMS: dict[str, tuple[str, list[str]]] = {
    "what others left in the cache is given back": (
        """
        with torch.rustdev.stream(behind):
            torch.rustdev._sleep(50_000_000)
            tensor(200).fill_(1)
        torch.rustdev.launch_host_func(lambda: print(attempt(220)), host)
        torch.rustdev.synchronize()
        print(torch.rustdev.memory_stats()["num_alloc_retries"])
        """,
        ["220", "1"],
    ),
    "streams behind a host function are not waited for": (
        """
        torch.rustdev.launch_host_func(lambda: (started.wait(), print(attempt(220)), print(attempt(50))), host)
        behind.wait_stream(host)
        with torch.rustdev.stream(behind):
            tensor(200).fill_(1)
        started.set()
        torch.rustdev.synchronize()
        print(attempt(220))
        """,
        ["no memory", "50", "220"],
    ),
    "host functions do not wait for each other": (
        """
        barrier, results = threading.Barrier(2), []
        for stream in (host, behind):
            torch.rustdev.launch_host_func(lambda: (barrier.wait(), results.append(attempt(300))), stream)
        torch.rustdev.synchronize()
        for result in (*results, attempt(200)):
            print(result)
        """,
        ["no memory", "no memory", "200"],
    ),
    "an error that is not caught is raised by the next wait": (
        """
        torch.rustdev.launch_host_func(lambda: tensor(300), host)
        try:
            host.synchronize()
        except torch.AcceleratorError as error:
            print("Tried to allocate 300.00 MiB" in str(error))
        host.synchronize()
        """,
        ["True"],
    ),
    "a tensor that cannot grow stays as it was": (
        """
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
        """,
        ["[4] [2.0, 2.0, 2.0, 2.0] 16"] * 3,
    ),
    "a pool that lends": (
        """
        keeps, lends = MemPool(), MemPool(use_on_oom=True)
        fill(keeps, 100)
        print(attempt(200))
        del keeps
        fill(lends, 100)
        print(attempt(100), len(lends.snapshot()))
        torch.rustdev.empty_cache()
        held = tensor(150)
        torch.rustdev.synchronize()
        lent = tensor(90)
        print([segment["active_size"] >> 20 for segment in lends.snapshot()])
        lent.fill_(1)
        print(attempt(20))
        del lent
        held = None
        print(attempt(200), torch.rustdev.memory_stats()["num_ooms"])
        """,
        ["no memory", "100 1", "[90]", "no memory", "200 2"],
    ),
    "a pool lends the memory of another stream": (
        """
        lends = MemPool(use_on_oom=True)
        with torch.rustdev.stream(host):
            torch.rustdev._sleep(20_000_000)
            fill(lends, 100, 100)
        print(attempt(150), len(lends.snapshot()), torch.rustdev.memory_stats()["num_ooms"])
        """,
        ["150 0 0"],
    ),
    "a pool of a graph lends nothing": (
        """
        lends = MemPool(use_on_oom=True)
        x, graph = torch.ones(8 << 20, device="rustdev"), torch.rustdev.Graph()
        with torch.rustdev.graph(graph, pool=lends):
            y = (x * 2) + 1
        print(attempt(180))  # of the 160 MiB that nobody has
        held = tensor(150)
        with torch.rustdev.stream(torch.rustdev.graph._default_stream()):
            print(attempt(30))
        graph.replay()
        print(y.sum().item() == 3 * (8 << 20))
        """,
        ["no memory", "no memory", "True"],
    ),
    "a pool takes what the general cache has first": (
        "tensor(200); pool = MemPool(); print(len(fill(pool, 220)[0]) >> 20, attempt(100))",
        ["220 no memory"],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_device_of_256_mib(name: str) -> None:
    code, printed = PROGRAMS[name]
    done = children.run(PREAMBLE + textwrap.dedent(code), check=True, RUSTDEV_MEMORY_LIMIT="256M")
    assert done.stdout.splitlines() == printed
