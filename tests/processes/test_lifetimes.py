"""Lifetime of memory that several processes use; nothing of it leaks if one of them is killed."""

import gc
import os
import time
from collections.abc import Callable
from typing import Any

import processes_workers as there
import pytest
import torch
from processes_workers import Worker

MIB = 1 << 20
SIZE = 20 * MIB


def allocated() -> int:
    gc.collect()
    torch.rustdev.ipc_collect()
    return torch.rustdev.memory_allocated()


def until(holds: Callable[[], bool]) -> None:
    """Return once something holds that another process has begun."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
def test_a_deleted_tensor_stays_until_its_receiver_drops_it(spawned: Worker) -> None:
    before = allocated()
    tensor = torch.ones(SIZE // 4, device="rustdev")
    spawned.call(there.keep, "x", tensor)
    del tensor
    assert allocated() == before + SIZE
    for _ in range(4):
        torch.full((SIZE // 4,), 3.0, device="rustdev")
    assert spawned.call(there.evaluate, "(x == 1).all().item()"), "nobody else got the memory"
    spawned.call(there.drop, "x")
    assert allocated() == before


def test_a_tensor_that_was_returned_is_freed_as_any_other(spawned: Worker) -> None:
    before = allocated()
    tensor = torch.ones(SIZE // 4, device="rustdev")
    spawned.call(there.keep, "x", tensor)
    spawned.call(there.keep, "y", tensor[5:])
    spawned.call(there.drop, "x")
    spawned.call(there.drop, "y")
    del tensor
    assert torch.rustdev.memory_allocated() == before, "without ipc_collect()"


def test_the_receiver_keeps_it_until_its_tasks_are_done(spawned: Worker) -> None:
    before = allocated()
    tensor = torch.ones(SIZE // 4, device="rustdev")
    spawned.call(there.keep, "x", tensor)
    del tensor
    spawned.call(there.execute, "import threading; ready = threading.Event(); torch.rustdev.launch_host_func(ready.wait)")
    spawned.call(there.execute, "y = x.sum(); del x")
    assert allocated() == before + SIZE
    spawned.call(there.execute, "ready.set()")
    assert spawned.call(there.evaluate, "y.item()") == SIZE // 4
    until(lambda: allocated() == before)


def test_memory_that_runs_short_is_collected_by_itself(spawned: Worker) -> None:
    free = torch.rustdev.mem_get_info(1)[0]
    bytes_ = 64 * MIB
    torch.rustdev.set_per_process_memory_fraction((bytes_ + 32 * MIB) / torch.rustdev.get_device_properties(1).total_memory, 1)
    assert free > 0
    try:
        tensor = torch.ones(bytes_ // 4, device="rustdev:1")
        spawned.call(there.keep, "x", tensor)
        del tensor
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(bytes_, dtype=torch.uint8, device="rustdev:1")
        spawned.call(there.drop, "x")
        assert torch.empty(bytes_, dtype=torch.uint8, device="rustdev:1").numel() == bytes_
    finally:
        torch.rustdev.set_per_process_memory_fraction(1.0, 1)


@pytest.mark.slow
def test_a_killed_receiver_holds_nothing() -> None:
    before = allocated()
    worker = Worker("spawn", torch.ones(SIZE // 4, device="rustdev"))
    worker.call(there.keep, "x", torch.ones(SIZE // 4, device="rustdev"))
    assert allocated() == before + 2 * SIZE
    worker.kill()
    assert allocated() == before
    worker.close()


def test_a_process_that_is_killed_before_it_received_its_arguments_holds_nothing() -> None:
    before = allocated()
    worker = Worker("spawn", torch.ones(SIZE // 4, device="rustdev"))
    worker.kill()
    assert allocated() == before
    worker.close()


def shared_files() -> set[str]:
    """Return the files of shared memory, without the semaphores of other tests' processes."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.")}


@pytest.mark.slow
def test_a_killed_sender_leaves_the_memory_to_its_receiver_and_nothing_behind() -> None:
    worker = Worker()
    files = shared_files()
    theirs = worker.call(there.make, "x", 64 * MIB // 4)
    worker.call(there.execute, f"z = torch.ones({64 * MIB}, device='rustdev')")
    lost = worker.call(there.pickled, "z")
    worker.kill()
    assert (theirs.add_(1) == 2).all()
    with pytest.raises(RuntimeError, match="has ended"):
        there.unpickle(lost)
    assert shared_files() <= files
    mapped = theirs.data_ptr()
    assert is_mapped(mapped)
    del theirs
    gc.collect()
    torch.rustdev.synchronize()
    until(lambda: not is_mapped(mapped))
    worker.close()


def is_mapped(address: int) -> bool:
    """Tell whether memory of another process is at an address."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            begin, end = (int(bound, 16) for bound in line.split()[0].split("-"))
            if begin <= address < end:
                return "memfd:rustdev" in line
    return False


def test_a_message_is_received_once(spawned: Worker) -> None:
    there.keep("own", torch.arange(3.0, device="rustdev"))
    message = there.pickled("own")
    with pytest.raises(RuntimeError, match="received before"):
        spawned.call(there.unpickle, message)


def test_a_handle_that_is_none_is_refused() -> None:
    from rustdev import _rustdev

    calls: list[Any] = [lambda: _rustdev.ipc_receive(b"abc", 0), lambda: _rustdev.ipc_give_back(b"", 0)]
    for call in calls:
        with pytest.raises(ValueError, match="a handle of rustdev has"):
            call()
    with pytest.raises(RuntimeError, match="has ended"):
        _rustdev.ipc_receive(bytes(88), 0)
