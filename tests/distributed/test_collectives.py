"""Collectives: the values of every one, in every dtype, against what one process computes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from workers import Workers, device

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int8, torch.uint8, torch.int32, torch.int64)
COMPLEX = (torch.complex64, torch.complex128)
REDUCED = (*FLOATS, *INTEGERS, torch.bool, *COMPLEX)
#: Sizes of 1 to 16 bytes; the last two cannot be reduced. Moving knows no dtypes but through PyTorch's own views.
MOVED = (torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.complex128, torch.int16, torch.float8_e4m3fn)


def data(rank: int, dtype: torch.dtype, *shape: int) -> Tensor:
    """What a rank contributes, on the CPU: small integers, so that every order of sums gives the same."""
    generator = torch.Generator().manual_seed(100 + rank)
    numbers = torch.randint(0, 5, shape or (3, 4), generator=generator)
    return numbers % 2 == 0 if dtype is torch.bool else numbers.to(dtype)


def everyones(dtype: torch.dtype, *shape: int) -> list[Tensor]:
    return [data(rank, dtype, *shape) for rank in range(dist.get_world_size())]


def mine(dtype: torch.dtype, *shape: int) -> Tensor:
    return data(dist.get_rank(), dtype, *shape).to(device())


def expect(actual: Tensor, wanted: Tensor) -> None:
    assert actual.device == device()
    actual = actual.cpu()
    assert actual.dtype == wanted.dtype
    assert actual.shape == wanted.shape
    assert actual.flatten().view(torch.uint8).tolist() == wanted.flatten().view(torch.uint8).tolist(), (actual, wanted)


def reduced(op: Any, tensors: list[Tensor]) -> Tensor:
    """The reduction on one process."""
    stack = torch.stack(tensors)
    if stack.dtype is torch.bool:
        return stack.any(0) if op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.BOR) else stack.all(0)
    bitwise = {dist.ReduceOp.BAND: torch.bitwise_and, dist.ReduceOp.BOR: torch.bitwise_or, dist.ReduceOp.BXOR: torch.bitwise_xor}
    if op in bitwise:
        total = tensors[0]
        for tensor in tensors[1:]:
            total = bitwise[op](total, tensor)
        return total
    functions: dict[Any, Callable[[Tensor], Tensor]] = {
        dist.ReduceOp.SUM: lambda values: values.sum(0),
        dist.ReduceOp.AVG: lambda values: values.sum(0) / len(tensors),
        dist.ReduceOp.PRODUCT: lambda values: values.prod(0),
        dist.ReduceOp.MIN: lambda values: values.amin(0),
        dist.ReduceOp.MAX: lambda values: values.amax(0),
    }
    return functions[op](stack).to(stack.dtype)


def reductions(dtype: torch.dtype) -> list[Any]:
    ops = [dist.ReduceOp.SUM]
    if dtype in (*FLOATS, *COMPLEX):
        ops.append(dist.ReduceOp.AVG)
    if dtype not in COMPLEX:
        ops += [dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX]
    if dtype in (*INTEGERS, torch.bool):
        ops += [dist.ReduceOp.BAND, dist.ReduceOp.BOR]
    if dtype in INTEGERS:
        ops.append(dist.ReduceOp.BXOR)
    return ops


def some_reductions() -> list[tuple[torch.dtype, Any]]:
    """Sums of every dtype, and every reduction of some."""
    sums = [(dtype, dist.ReduceOp.SUM) for dtype in REDUCED]
    return sums + [(dtype, op) for dtype in (torch.bfloat16, torch.int32, torch.bool) for op in reductions(dtype)[1:]]


def all_reduce() -> None:
    for dtype in REDUCED:
        for op in reductions(dtype):
            tensor = mine(dtype)
            dist.all_reduce(tensor, op)
            expect(tensor, reduced(op, everyones(dtype)))


def all_reduce_empty_scalar_and_channels_last() -> None:
    for shape in ((0,), (), (2, 3, 4, 5)):
        tensor = mine(torch.float32, *shape) if shape else mine(torch.float32, 1).squeeze()
        if len(shape) == 4:
            tensor = tensor.contiguous(memory_format=torch.channels_last)
        dist.all_reduce(tensor)
        expect(tensor, sum(everyones(torch.float32, *shape) if shape else [x[0] for x in everyones(torch.float32, 1)]))


def reduce() -> None:
    for number, (dtype, op) in enumerate(some_reductions()):
        root = number % dist.get_world_size()
        tensor = mine(dtype)
        dist.reduce(tensor, root, op)
        expect(tensor, reduced(op, everyones(dtype)) if dist.get_rank() == root else data(dist.get_rank(), dtype))


def broadcast() -> None:
    for dtype in MOVED:
        for root in range(dist.get_world_size()):
            tensor = mine(dtype)
            dist.broadcast(tensor, root)
            expect(tensor, data(root, dtype))


def all_gather() -> None:
    ranks = dist.get_world_size()
    for dtype in MOVED:
        outputs = [torch.zeros(3, 4, dtype=dtype, device=device()) for _ in range(ranks)]
        dist.all_gather(outputs, mine(dtype))
        for output, wanted in zip(outputs, everyones(dtype), strict=True):
            expect(output, wanted)
        whole = torch.zeros(ranks * 3, 4, dtype=dtype, device=device())
        dist.all_gather_into_tensor(whole, mine(dtype))
        expect(whole, torch.cat(everyones(dtype)))
        stacked = torch.zeros(ranks, 3, 4, dtype=dtype, device=device())
        dist.all_gather_into_tensor(stacked, mine(dtype))
        expect(stacked, torch.stack(everyones(dtype)))


def all_gather_in_place() -> None:
    ranks, rank = dist.get_world_size(), dist.get_rank()
    whole = torch.zeros(ranks * 3, device=device())
    whole[3 * rank : 3 * rank + 3] = mine(torch.float32, 3)
    dist.all_gather_into_tensor(whole, whole[3 * rank : 3 * rank + 3])
    expect(whole, torch.cat(everyones(torch.float32, 3)))


def all_gather_of_different_sizes() -> None:
    ranks = dist.get_world_size()
    outputs = [torch.zeros(rank + 1, 2, device=device()) for rank in range(ranks)]
    dist.all_gather(outputs, mine(torch.float32, dist.get_rank() + 1, 2))
    for rank, output in enumerate(outputs):
        expect(output, data(rank, torch.float32, rank + 1, 2))


def gather_and_scatter() -> None:
    ranks, rank = dist.get_world_size(), dist.get_rank()
    for dtype in MOVED:
        for root in range(ranks):
            outputs = [torch.zeros(3, 4, dtype=dtype, device=device()) for _ in range(ranks)] if rank == root else None
            dist.gather(mine(dtype), outputs, root)
            for output, wanted in zip(outputs or [], everyones(dtype) if outputs else [], strict=True):
                expect(output, wanted)
            output = torch.zeros(3, 4, dtype=dtype, device=device())
            dist.scatter(output, [tensor.to(device()) for tensor in everyones(dtype)] if rank == root else None, root)
            expect(output, data(rank, dtype))


def reduce_scatter() -> None:
    ranks, rank = dist.get_world_size(), dist.get_rank()
    for dtype, op in some_reductions():
        wanted = reduced(op, everyones(dtype, ranks, 3)).chunk(ranks)[rank]
        output = torch.zeros(1, 3, dtype=dtype, device=device())
        dist.reduce_scatter_tensor(output, mine(dtype, ranks, 3), op)
        expect(output, wanted)
    output = torch.zeros(1, 3, dtype=dtype, device=device())
    dist.reduce_scatter(output, list(mine(dtype, ranks, 3).chunk(ranks)), op)
    expect(output, wanted)


def reduce_scatter_of_different_sizes() -> None:
    ranks, rank = dist.get_world_size(), dist.get_rank()
    sizes = [size + 1 for size in range(ranks)]
    wanted = sum(everyones(torch.float32, sum(sizes))).split(sizes)[rank]
    source = mine(torch.float32, sum(sizes))
    output = torch.zeros(rank + 1, device=device())
    dist.reduce_scatter(output, list(source.split(sizes)))
    expect(output, wanted)
    expect(source, data(rank, torch.float32, sum(sizes)))


def all_to_all() -> None:
    ranks, rank = dist.get_world_size(), dist.get_rank()
    for dtype in MOVED:
        outputs = [torch.zeros(3, 4, dtype=dtype, device=device()) for _ in range(ranks)]
        dist.all_to_all(outputs, [data(10 * rank + to, dtype).to(device()) for to in range(ranks)])
        for source, output in enumerate(outputs):
            expect(output, data(10 * source + rank, dtype))
        output = torch.zeros(ranks, 3, dtype=dtype, device=device())
        dist.all_to_all_single(output, mine(dtype, ranks, 3))
        expect(output, torch.stack([tensor[rank] for tensor in everyones(dtype, ranks, 3)]))


def all_to_all_of_different_sizes() -> None:
    ranks, rank = dist.get_world_size(), dist.get_rank()
    outputs = [torch.zeros(source + 2 * rank, device=device()) for source in range(ranks)]
    dist.all_to_all(outputs, [data(10 * rank + to, torch.float32, rank + 2 * to).to(device()) for to in range(ranks)])
    for source, output in enumerate(outputs):
        expect(output, data(10 * source + rank, torch.float32, source + 2 * rank))
    # Rank r sends r + 1 rows to each; so it receives s + 1 rows from rank s.
    received = [source + 1 for source in range(ranks)]
    output = torch.zeros(sum(received), 2, device=device())
    dist.all_to_all_single(output, mine(torch.float32, ranks * (rank + 1), 2), received, [rank + 1] * ranks)
    parts = [data(source, torch.float32, ranks * (source + 1), 2).split(source + 1)[rank] for source in range(ranks)]
    expect(output, torch.cat(parts))


def coalesced() -> None:
    ranks, rank = dist.get_world_size(), dist.get_rank()
    sums = [mine(torch.float32, size) for size in (1, 5, 7)]
    with dist._coalescing_manager(device=device()):
        for tensor in sums:
            dist.all_reduce(tensor)
    for tensor in sums:
        expect(tensor, sum(everyones(torch.float32, len(tensor))))
    wholes = [torch.zeros(ranks * size, device=device()) for size in (2, 3)]
    with dist._coalescing_manager(device=device(), async_ops=True) as manager:
        for whole in wholes:
            dist.all_gather_into_tensor(whole, mine(torch.float32, len(whole) // ranks))
    manager.wait()
    for whole in wholes:
        expect(whole, torch.cat(everyones(torch.float32, len(whole) // ranks)))
    parts = [torch.zeros(size, device=device()) for size in (2, 3)]
    with dist._coalescing_manager(device=device()):
        for part in parts:
            dist.reduce_scatter_tensor(part, mine(torch.float32, ranks * len(part)))
    for part in parts:
        expect(part, sum(everyones(torch.float32, ranks * len(part))).chunk(ranks)[rank])
    with dist._coalescing_manager(device=device()):
        pass


def premultiplied_sum() -> None:
    op = dist._make_nccl_premul_sum(0.5)
    tensor = mine(torch.float32)
    dist.all_reduce(tensor, op)
    expect(tensor, sum(everyones(torch.float32)) * 0.5)
    ranks, rank = dist.get_world_size(), dist.get_rank()
    output, source = torch.zeros(3, device=device()), mine(torch.float32, ranks, 3)
    dist.reduce_scatter_tensor(output, source, op)
    expect(output, sum(everyones(torch.float32, ranks, 3))[rank] * 0.5)
    expect(source, data(rank, torch.float32, ranks, 3))


def in_inference_mode() -> None:
    with torch.inference_mode():
        tensor = mine(torch.float32)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)  # Gloo divides in a thread of its own
        expect(tensor, sum(everyones(torch.float32)) / dist.get_world_size())


def objects() -> None:
    ranks, rank = dist.get_world_size(), dist.get_rank()
    group = dist.new_group(backend="rdccl")  # of the device alone, so that the bytes go through it
    everything: list[Any] = [None] * ranks
    dist.all_gather_object(everything, {"rank": rank, "text": "x" * rank}, group=group)
    assert everything == [{"rank": other, "text": "x" * other} for other in range(ranks)]
    sent: list[Any] = ["from", rank] if rank == 0 else [None, None]
    dist.broadcast_object_list(sent, 0, group=group)
    assert sent == ["from", 0]
    received: list[Any] = [None]
    dist.scatter_object_list(received, [("to", other) for other in range(ranks)] if rank == 0 else None, 0, group=group)
    assert received == [("to", rank)]
    gathered: list[Any] | None = [None] * ranks if rank == 0 else None
    dist.gather_object(rank, gathered, 0, group=group)
    assert gathered == (list(range(ranks)) if rank == 0 else None)
    dist.destroy_process_group(group)


COLLECTIVES = (
    all_reduce,
    reduce,
    all_reduce_empty_scalar_and_channels_last,
    broadcast,
    all_gather,
    all_gather_in_place,
    all_gather_of_different_sizes,
    gather_and_scatter,
    reduce_scatter,
    reduce_scatter_of_different_sizes,
    all_to_all,
    all_to_all_of_different_sizes,
    coalesced,
    premultiplied_sum,
    in_inference_mode,
    objects,
)


@pytest.mark.parametrize("collective", COLLECTIVES, ids=lambda function: function.__name__)
def test_collective_gives_what_one_process_computes(pair: Workers, collective: Callable[[], None]) -> None:
    pair.run(collective)


def in_fours() -> None:
    all_gather_of_different_sizes()
    gather_and_scatter()
    reduce_scatter_of_different_sizes()
    all_to_all_of_different_sizes()
    coalesced()


@pytest.mark.slow
def test_four_ranks_agree_as_well(four: Workers) -> None:
    four.run(in_fours)


def barriers() -> None:
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 1:
        torch.rustdev._sleep(200_000_000)
        torch.rustdev.launch_host_func(lambda: store.set("reached", "yes"))
    dist.barrier(device_ids=[device().index])
    assert store.check(["reached"])  # the barrier waits for the stream, and the host for the barrier
    dist.monitored_barrier()


def test_barrier_waits_for_the_streams_of_all_ranks(pair: Workers) -> None:
    pair.run(barriers)
