"""Ranks that call different collectives fail with a report of both calls (`RUSTDEV_NCCL`)."""

import functools
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from workers import Workers, joined

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def comparing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """Two processes that compare their calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUSTDEV_NCCL", "error")
        workers = Workers(2, tmp_path_factory.mktemp("error"), backend=None)
        yield workers
        workers.stop()


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    """Two processes that compare their calls, and wait for the timeout if they differ."""
    monkeypatch.setenv("RUSTDEV_NCCL", "hang")
    workers = Workers(2, tmp_path, backend=None)
    yield workers
    workers.stop()


#: The error of the stream, or of the call if the ranks have compared their calls by its end.
FAILURES = (torch.AcceleratorError, dist.DistBackendError)


def failing(function: Callable[[str], object]) -> Callable[[str], str]:
    """Return a function that expects the failure of another, leaves the group, and returns the error's text."""

    @functools.wraps(function)
    def expected(store: str) -> str:
        with pytest.raises(FAILURES) as raised:
            function(store)
        assert (torch.ones(4, device="rustdev") * 3).tolist() == [3.0] * 4, "the device works on"
        dist.destroy_process_group()
        return str(raised.value)

    return expected


@failing
def another_operation(store: str) -> None:
    rank, tensor = joined(store)
    if rank == 0:
        dist.all_reduce(tensor)
    else:
        dist.broadcast(tensor, 0)
    tensor.tolist()


@failing
def another_size(store: str) -> None:
    rank, _ = joined(store)
    tensor = torch.ones(4 + rank, device="rustdev")
    dist.all_reduce(tensor)
    tensor.tolist()


@failing
def another_dtype(store: str) -> None:
    rank, _ = joined(store)
    tensor = torch.ones(4, device="rustdev", dtype=torch.float32 if rank == 0 else torch.int32)
    dist.all_reduce(tensor)
    tensor.tolist()


DIFFERENT = [
    (another_operation, "all_reduce of float32 with 4 elements", "broadcast of float32 with 4 elements"),
    (another_size, "all_reduce of float32 with 4 elements", "all_reduce of float32 with 5 elements"),
    (another_dtype, "all_reduce of float32 with 4 elements", "all_reduce of int32 with 4 elements"),
]


@pytest.mark.parametrize(("function", "first", "second"), DIFFERENT, ids=lambda value: getattr(value, "__name__", ""))
def test_calls_that_differ(comparing: Workers, tmp_path: Path, function: Callable[..., str], first: str, second: str) -> None:
    for error in comparing.run(function, str(tmp_path / "store")):
        assert f"the ranks call different collectives: rank 0 calls {first} at " in error
        assert f"; rank 1 calls {second} at " in error
        assert error.count("test_compared_calls.py:") == 2
        assert error.count(f" in {function.__name__}") == 2


def alike(store: str) -> None:
    rank, tensor = joined(store)
    parts = [torch.empty(1 + index, device="rustdev") for index in range(2)]
    dist.all_gather(parts, torch.full((1 + rank,), float(rank), device="rustdev"))
    assert [part.tolist() for part in parts] == [[0.0], [1.0, 1.0]]
    dist.gather(tensor, [torch.empty_like(tensor) for _ in range(2)] if rank == 0 else None)
    own = torch.empty(2, device="rustdev")
    dist.scatter(own, [torch.full((2,), float(index), device="rustdev") for index in range(2)] if rank == 0 else None)
    assert own.tolist() == [rank] * 2
    sent = torch.arange(3.0, device="rustdev")
    received = torch.empty(4 if rank else 2, device="rustdev")
    dist.all_to_all_single(received, sent, [2, 2] if rank else [1, 1], [1, 2])
    if rank == 0:
        dist.send(tensor, 1)
    else:
        dist.recv(tensor, 0)
    dist.barrier(device_ids=[0])
    for _ in range(20):
        dist.all_reduce(tensor, async_op=True)
    dist.barrier(device_ids=[0])
    torch.rustdev.synchronize()
    dist.destroy_process_group()


def test_calls_that_may_differ(comparing: Workers, tmp_path: Path) -> None:
    comparing.run(alike, str(tmp_path / "store"))


@failing
def late(store: str) -> None:
    rank, tensor = joined(store)
    dist.group.WORLD._get_backend(tensor.device)._set_default_timeout(timedelta(seconds=1))
    if rank == 0:
        dist.all_reduce(tensor)
    else:
        dist.broadcast(tensor, 0)
    tensor.tolist()


def test_calls_that_differ_fail_after_the_timeout(hanging: Workers, tmp_path: Path) -> None:
    for error in hanging.run(late, str(tmp_path / "store")):
        assert "the ranks call different collectives: rank 0 calls all_reduce" in error
        assert "this rank has waited for 0:00:01" in error
