"""Late and lost ranks: the other ranks get an error that says so, and their devices keep working."""

import atexit
import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from workers import Workers, joined


@pytest.fixture
def breakable(tmp_path: Path) -> Iterator[Workers]:
    """Two processes that make their groups themselves, and may lose one."""
    workers = Workers(2, tmp_path, backend=None)
    yield workers
    workers.stop()


def late(store: str) -> list[str]:
    rank, tensor = joined(store)
    errors = []
    dist.group.WORLD._get_backend(tensor.device)._set_default_timeout(timedelta(seconds=1))
    if rank == 0:
        dist.all_reduce(tensor)  # the other rank makes none
        with pytest.raises(torch.AcceleratorError) as failure:
            tensor.tolist()
        errors.append(str(failure.value))
        assert (torch.ones(4, device="rustdev") * 3).tolist() == [3.0] * 4
        with pytest.raises(dist.DistBackendError) as refusal:
            dist.all_reduce(tensor)
        errors.append(str(refusal.value))
        with pytest.raises(dist.DistBackendError):
            dist.barrier(device_ids=[0])
    else:
        time.sleep(3)
    dist.destroy_process_group()
    # Another group works.
    joined(f"{store} again")
    dist.destroy_process_group()
    return errors


@pytest.mark.slow
def test_timeout_is_an_error_of_the_stream_and_then_of_the_group(joiners: Workers, tmp_path: Path) -> None:
    errors = joiners.run(late, str(tmp_path / "late"))
    for error in errors[0]:
        assert "all_reduce of rank 0 of 2 in rdccl group" in error
        assert "Timed out" in error or "timed out" in error or "timeout" in error.lower()
    assert "make a new group" in errors[0][1]


def waited_on_the_host(store: str) -> None:
    rank, tensor = joined(store)
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        begin = time.perf_counter()
        with pytest.raises(dist.DistBackendError, match=r"not finished after 0\.3 s"):
            work.wait(timedelta(seconds=0.3))
        assert 0.3 <= time.perf_counter() - begin < 2
        dist.distributed_c10d._get_default_store().set("given up", "yes")
        assert work.wait(timedelta(seconds=30))  # the operation itself goes on
    else:
        dist.distributed_c10d._get_default_store().wait(["given up"])
        dist.all_reduce(tensor)
    assert tensor.tolist() == [4.0] * 4
    dist.destroy_process_group()


@pytest.mark.clock
def test_wait_with_a_time_holds_the_host_no_longer(joiners: Workers, tmp_path: Path) -> None:
    joiners.run(waited_on_the_host, str(tmp_path / "store"))


def without_rank_1(workers: Workers, function: Callable[[str], Any], directory: Path, code: int) -> Any:
    """Return what a function returns on rank 0, while rank 1 ends with an exit code."""
    workers.start()
    for connection in workers.connections:
        connection.send((function, (str(directory / "store"),)))
    is_well, answer = workers.connections[0].recv()
    assert is_well, answer
    workers.processes[1].join(30)
    assert workers.processes[1].exitcode == code
    return answer


def lost(store: str) -> dict[str, str]:
    """Rank 1 ends without a word; rank 0 notices it in each of several groups, and returns the errors."""
    rank, _ = joined(store)
    groups = [dist.new_group() for _ in USES]
    for group in groups:
        dist.all_reduce(torch.ones(4, device="rustdev"), group=group)
    torch.rustdev.synchronize()
    if rank == 1:
        os._exit(7)
    errors = {}
    for use, group in zip(USES, groups, strict=True):
        with pytest.raises(RuntimeError) as failure:
            use(torch.ones(4, device="rustdev"), group)
        errors[use.__name__] = str(failure.value)
        torch.rustdev.synchronize()
        assert (torch.ones(4, device="rustdev") * 3).tolist() == [3.0] * 4
    dist.destroy_process_group()
    return errors


def reduce_and_read(tensor: torch.Tensor, group: dist.ProcessGroup) -> object:
    dist.all_reduce(tensor, group=group)
    return tensor.tolist()


def receive_and_read(tensor: torch.Tensor, group: dist.ProcessGroup) -> object:
    dist.recv(tensor, 1, group=group)
    return tensor.tolist()


def wait_for_a_future(tensor: torch.Tensor, group: dist.ProcessGroup) -> object:
    """A future knows no error: the stream that asked for it fails, behind what it was given by then."""
    dist.all_reduce(tensor, group=group, async_op=True).get_future().wait()
    torch.rustdev.synchronize()
    return torch.rustdev.synchronize()


def reduce_again(tensor: torch.Tensor, group: dist.ProcessGroup) -> object:
    work = dist.all_reduce(tensor, group=group, async_op=True)
    while not work.is_completed():
        time.sleep(0.001)
    assert not work.is_success()
    assert "all_reduce" in str(work.exception())
    return dist.all_reduce(tensor, group=group)


def make_data_parallel(tensor: torch.Tensor, group: dist.ProcessGroup) -> object:
    return torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).to("rustdev"), process_group=group)(tensor)


USES = (reduce_and_read, receive_and_read, wait_for_a_future, reduce_again, make_data_parallel)


@pytest.mark.clock
def test_lost_rank_is_an_error_on_the_other(breakable: Workers, tmp_path: Path) -> None:
    errors = without_rank_1(breakable, lost, tmp_path, 7)
    for name, error in errors.items():
        assert "rank 0 of 2 in rdccl group" in error, (name, error)
        assert "Timed out" not in error, (name, error)


def answer_no_more(store: str) -> list[str]:
    """Rank 1 is silent from its third operation on: both ranks see that, each in its own words, and can go on in a new group."""
    _, tensor = joined(store)
    dist.group.WORLD._get_backend(tensor.device)._set_default_timeout(timedelta(seconds=2))
    with torch.rustdev.inject_faults("peer:1:3"):
        for _ in range(2):
            dist.all_reduce(tensor)
        assert tensor.tolist() == [8.0] * 4
        begin = time.perf_counter()
        dist.all_reduce(tensor)
        assert time.perf_counter() - begin < 1.5  # the host goes on
        with pytest.raises(torch.AcceleratorError) as failure:
            tensor.tolist()
        assert time.perf_counter() - begin < 20
    with pytest.raises(dist.DistBackendError, match="make a new group") as refusal:
        dist.all_reduce(tensor)
    assert (torch.ones(4, device="rustdev") * 3).tolist() == [3.0] * 4
    dist.destroy_process_group()
    joined(f"{store} again")
    dist.destroy_process_group()
    return [str(failure.value), str(refusal.value)]


@pytest.mark.clock
def test_injected_silence_of_a_rank_is_an_error_on_both(joiners: Workers, tmp_path: Path) -> None:
    errors = joiners.run(answer_no_more, str(tmp_path / "silent"))
    for error in errors[0]:
        assert "all_reduce of rank 0 of 2 in rdccl group" in error
        assert "timed out" in error.lower()
        assert "injected" not in error
    for error in errors[1]:
        assert "all_reduce of rank 1 of 2 in rdccl group" in error
        assert "injected by peer:1:3" in error


def end_in_an_operation(store: str) -> str:
    _, tensor = joined(store)
    with torch.rustdev.inject_faults("exit:1:2"):
        dist.all_reduce(tensor)
        tensor.tolist()
        dist.all_reduce(tensor)
        with pytest.raises(torch.AcceleratorError) as failure:
            tensor.tolist()
    dist.destroy_process_group()
    return str(failure.value)


@pytest.mark.slow
def test_injected_end_of_a_rank_is_an_error_on_the_other(breakable: Workers, tmp_path: Path) -> None:
    error = without_rank_1(breakable, end_in_an_operation, tmp_path, -signal.SIGKILL)
    assert "all_reduce of rank 0 of 2 in rdccl group" in error
    assert "timed out" not in error.lower()


def leave_an_operation(store: str) -> None:
    """Has one begin when the process ends, which the other rank never joins: it ends with the group's time."""
    _, tensor = joined(store)
    dist.group.WORLD._get_backend(tensor.device)._set_default_timeout(timedelta(seconds=2))
    atexit.register(lambda: dist.all_reduce(tensor))
    dist.destroy_process_group = lambda: None  # which the worker would call


@pytest.mark.slow
def test_process_with_an_operation_under_way_ends(breakable: Workers, tmp_path: Path) -> None:
    breakable.run(leave_an_operation, str(tmp_path / "store"))
    breakable.connections[0].send(None)
    breakable.processes[0].join(50)
    assert breakable.processes[0].exitcode == 0
