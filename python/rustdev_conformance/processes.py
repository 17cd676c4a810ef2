"""Checks of tensors that other processes share, and of collectives between two processes."""

import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.multiprocessing.spawn import spawn

from rustdev_conformance.checks import Absent, Device, check

RANKS = 2
SECONDS = 90


def receive(device: Device, queue: Any, answers: Any) -> None:
    """Add to a tensor that another process sends, and say what it held."""
    device.load()
    value = queue.get()
    held = value.cpu().tolist()
    value.add_(10)
    device.synchronize()
    answers.put((str(value.device.type), held))
    queue.get()


@check("processes/sharing", "core")
def sharing(device: Device) -> None:
    context = mp.get_context("spawn")
    queue, answers = context.Queue(), context.Queue()
    value = torch.arange(4.0).to(device.name)
    device.synchronize()
    if device.name == "cpu":
        value.share_memory_()
    try:
        from multiprocessing.reduction import ForkingPickler

        ForkingPickler.dumps(value)
    except Exception as refusal:
        told = f"a tensor cannot be sent to a process: {str(refusal)[:200]}"
        assert not device.offered(["ipc_collect"]), f"torch.{device.name} has ipc_collect, and {told}"
        raise Absent(told) from refusal
    process = context.Process(target=receive, args=(device, queue, answers), daemon=True)
    process.start()
    try:
        queue.put(value)
        where, held = answers.get(timeout=SECONDS)
        assert where == device.name, f"the tensor is on {where} in the other process"
        assert held == [0, 1, 2, 3], held
        assert value.cpu().tolist() == [10, 11, 12, 13], f"{value.cpu().tolist()} after the other process added 10: it has a copy"
        queue.put(None)
        process.join(SECONDS)
    finally:
        process.kill()


def begin(device: Device, rank: int, store: str) -> torch.device:
    """Join the process group, and return the rank's device."""
    device.load()
    count = getattr(getattr(torch, device.name), "device_count", lambda: 1)()
    where = torch.device(device.name, rank % count) if device.name != "cpu" else torch.device("cpu")
    if device.name != "cpu":
        device.function("set_device")(where.index)
    backend = dist.Backend.default_device_backend_map[device.name]
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=RANKS, timeout=timedelta(seconds=SECONDS))
    return where


def work(rank: int, device: Device, store: str, name: str) -> None:
    """Call one of the collectives in a rank."""
    where = begin(device, rank, store)
    try:
        COLLECTIVES[name](rank, where)
        device.synchronize()
    finally:
        dist.destroy_process_group()


def all_reduce(rank: int, where: torch.device) -> None:
    value = torch.full((1000,), float(rank + 1), device=where)
    dist.all_reduce(value)
    assert value.unique().cpu().tolist() == [3], value.unique().cpu().tolist()
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    assert value[0].item() == 3


def broadcast(rank: int, where: torch.device) -> None:
    value = torch.full((5,), float(rank), device=where)
    dist.broadcast(value, src=1)
    assert value.cpu().tolist() == [1] * 5, value.cpu().tolist()


def all_gather(rank: int, where: torch.device) -> None:
    parts = [torch.zeros(2, device=where) for _ in range(RANKS)]
    dist.all_gather(parts, torch.full((2,), float(rank), device=where))
    assert [it.cpu().tolist() for it in parts] == [[0, 0], [1, 1]], parts


def reduce_scatter(rank: int, where: torch.device) -> None:
    result = torch.zeros(3, device=where)
    dist.reduce_scatter_tensor(result, torch.arange(6.0, device=where))
    assert result.cpu().tolist() == [6.0 * rank + 2 * it for it in range(3)], result.cpu().tolist()


def all_to_all(rank: int, where: torch.device) -> None:
    result = torch.zeros(2, device=where)
    dist.all_to_all_single(result, torch.tensor([10.0 * rank, 10.0 * rank + 1], device=where))
    assert result.cpu().tolist() == [rank, 10 + rank], result.cpu().tolist()


def messages(rank: int, where: torch.device) -> None:
    value = torch.full((4,), float(rank), device=where)
    if rank == 0:
        dist.send(value, dst=1)
    else:
        dist.recv(value, src=0)
    assert value.cpu().tolist() == [0] * 4
    dist.barrier()


def data_parallel(rank: int, where: torch.device) -> None:
    torch.manual_seed(0)
    module = torch.nn.Linear(3, 1).to(where)
    parallel = torch.nn.parallel.DistributedDataParallel(module, device_ids=None if where.type == "cpu" else [where.index])
    parallel(torch.full((1, 3), float(rank), device=where)).sum().backward()
    assert module.weight.grad is not None
    assert module.weight.grad.cpu().tolist() == [[0.5, 0.5, 0.5]], module.weight.grad.cpu().tolist()


COLLECTIVES: dict[str, Callable[[int, torch.device], None]] = {
    it.__name__: it for it in (all_reduce, broadcast, all_gather, reduce_scatter, all_to_all, messages, data_parallel)
}


def collective(name: str) -> Callable[[Device], str]:
    """Return the check of a collective."""

    def run(device: Device) -> str:
        backend = dist.Backend.default_device_backend_map.get(device.name) if dist.is_available() else None
        if backend is None:
            raise Absent(f"torch.distributed has no backend for {device.name}")
        with tempfile.TemporaryDirectory() as directory:
            spawn(work, (device, str(Path(directory, "store")), name), nprocs=RANKS)
        return str(backend)

    return run


for name in COLLECTIVES:
    check(f"collectives/{name}", "core")(collective(name))
