"""Rejected calls: on all ranks alike, before anything is changed or sent, so that the next operation is correct."""

import re
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch._C import _distributed_c10d as c10d
from workers import Workers, device, join

#: Makes a tensor of some elements.
Maker = "Callable[[int], Tensor]"
SUM = dist.ReduceOp.SUM


def ranks() -> int:
    return dist.get_world_size()


def backend() -> Any:
    return dist.group.WORLD._get_backend(device())


def on_root(tensors: list[Tensor], root: int = 0) -> list[Tensor] | None:
    return tensors if dist.get_rank() == root else None


def options(kind: Any, **values: Any) -> Any:
    made = kind()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def coalesced(*calls: Callable[[], object]) -> None:
    with dist._coalescing_manager(device=device()):
        for call in calls:
            call()


def exchange(make: Maker, op: Any) -> None:
    """Sends on one half of the ranks, receives on the other."""
    rank = dist.get_rank()
    kind = dist.isend if rank % 2 == 0 else dist.irecv
    for work in dist.batch_isend_irecv([dist.P2POp(kind, make(4), rank ^ 1), dist.P2POp(kind, make(4), rank ^ 1)]):
        work.wait()


def message(make: Maker, op: Any) -> None:
    rank = dist.get_rank()
    (dist.send if rank % 2 == 0 else dist.recv)(make(4), rank ^ 1)


#: Each collective and message, with tensors as they are made and, where it reduces, by an operation.
MOVING: dict[str, Callable[[Maker, Any], object]] = {
    "broadcast": lambda t, op: dist.broadcast(t(4), 0),
    "all_gather": lambda t, op: dist.all_gather([t(4) for _ in range(ranks())], t(4)),
    "all_gather of different sizes": lambda t, op: dist.all_gather(
        [t(2 + rank) for rank in range(ranks())], t(2 + dist.get_rank())
    ),
    "all_gather_into_tensor": lambda t, op: dist.all_gather_into_tensor(t(4 * ranks()), t(4)),
    "allgather_coalesced": lambda t, op: dist.group.WORLD.allgather_coalesced([[t(4), t(3)] for _ in range(ranks())], [t(4), t(3)]),
    "coalesced all_gather_into_tensor": lambda t, op: coalesced(
        lambda: dist.all_gather_into_tensor(t(4 * ranks()), t(4)), lambda: dist.all_gather_into_tensor(t(2 * ranks()), t(2))
    ),
    "gather": lambda t, op: dist.gather(t(4), on_root([t(4) for _ in range(ranks())]), 0),
    "scatter": lambda t, op: dist.scatter(t(4), on_root([t(4) for _ in range(ranks())]), 0),
    "all_to_all": lambda t, op: dist.all_to_all([t(4) for _ in range(ranks())], [t(4) for _ in range(ranks())]),
    "all_to_all_single": lambda t, op: dist.all_to_all_single(t(4 * ranks()), t(4 * ranks())),
    "coalesced broadcast": lambda t, op: coalesced(lambda: dist.broadcast(t(4), 0), lambda: dist.broadcast(t(4), 1)),
    "batch_isend_irecv": exchange,
    "send and recv": message,
}
REDUCING: dict[str, Callable[[Maker, Any], object]] = {
    "all_reduce": lambda t, op: dist.all_reduce(t(4), op),
    "all_reduce_coalesced": lambda t, op: dist.group.WORLD.allreduce_coalesced(
        [t(4), t(3)], options(c10d.AllreduceCoalescedOptions, reduceOp=op)
    ),
    "coalesced all_reduce": lambda t, op: coalesced(lambda: dist.all_reduce(t(4), op), lambda: dist.all_reduce(t(3), op)),
    "reduce": lambda t, op: dist.reduce(t(4), 0, op),
    "reduce_scatter": lambda t, op: dist.reduce_scatter(t(4), [t(4) for _ in range(ranks())], op),
    "reduce_scatter of different sizes": lambda t, op: dist.reduce_scatter(
        t(2 + dist.get_rank()), [t(2 + rank) for rank in range(ranks())], op
    ),
    "reduce_scatter_tensor": lambda t, op: dist.reduce_scatter_tensor(t(4), t(4 * ranks()), op),
    "coalesced reduce_scatter_tensor": lambda t, op: coalesced(
        lambda: dist.reduce_scatter_tensor(t(4), t(4 * ranks()), op), lambda: dist.reduce_scatter_tensor(t(2), t(2 * ranks()), op)
    ),
}


def numbers(count: int, dtype: torch.dtype = torch.float32, where: torch.device | None = None) -> Tensor:
    return torch.arange(1, count + 1).to(dtype).to(where or device())


def new_kind(make: Callable[[], Tensor]) -> Tensor:
    """Makes a tensor of a kind that PyTorch warns of once, as it is new."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


#: Tensors that none of them takes: how they are made, the error, and a part of its text, which may be PyTorch's own.
LAYOUTS: dict[str, tuple[Maker, type[Exception], str]] = {
    "column": (lambda n: torch.stack([numbers(n)] * 2, 1)[:, 0], ValueError, "must be contiguous"),
    "expanded": (lambda n: numbers(1).expand(n), ValueError, "must be contiguous"),
    "sparse": (lambda n: numbers(n).to_sparse(), ValueError, "dense"),
    "compressed": (lambda n: new_kind(lambda: numbers(n)[None].to_sparse_csr()), ValueError, "dense"),
}
#: What none of those that reduce takes.
REDUCTIONS: dict[str, tuple[Maker, Any, type[Exception], str]] = {
    "int16": (lambda n: numbers(n, torch.int16), SUM, TypeError, "cannot reduce tensors of torch.int16"),
    "bits of floats": (numbers, dist.ReduceOp.BAND, TypeError, "by RedOpType.BAND"),
    "mean of integers": (lambda n: numbers(n, torch.int32), dist.ReduceOp.AVG, TypeError, "by RedOpType.AVG"),
    "maximum of complex numbers": (lambda n: numbers(n, torch.complex64), dist.ReduceOp.MAX, Exception, "MAX"),
}


def raised(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error
    return None


def refused(name: str, call: Callable[[Maker], object], make: Maker, kind: Any, text: str) -> str:
    """Sees to it that a call is refused and nothing else happens; returns the error in words that are the same on all ranks."""
    made: list[tuple[Tensor, Tensor]] = []

    def noted(count: int) -> Tensor:
        tensor = make(count)
        made.append((tensor, tensor.clone()))
        return tensor

    error = raised(lambda: call(noted))
    assert isinstance(error, kind), f"{name}: {error!r}"
    assert text in str(error), f"{name}: {error!r}"
    for tensor, before in made:
        values = [it.to_dense() if it.layout is not torch.strided else it for it in (tensor, before) if not it.is_nested]
        assert not values or torch.equal(*values), f"{name}: changed"
    # PyTorch goes on collecting for any backend, where an error leaves the block of what is coalesced.
    dist.distributed_c10d._world.pg_coalesce_state.clear()
    total = numbers(4)
    dist.all_reduce(total)
    assert total.tolist() == [ranks() * value for value in (1.0, 2.0, 3.0, 4.0)], f"{name}: then all_reduce gave {total.tolist()}"
    return f"{name}: {type(error).__name__}: {re.sub('rustdev:[0-9]', 'rustdev', str(error))}"


def tensors_that_nobody_takes() -> list[str]:
    return [
        refused(f"{name}, {kind}", lambda t, call=call: call(t, SUM), make, error, text)
        for name, call in {**MOVING, **REDUCING}.items()
        for kind, (make, error, text) in LAYOUTS.items()
    ]


def reductions_that_nobody_makes() -> list[str]:
    return [
        refused(f"{name}, {kind}", lambda t, call=call, op=op: call(t, op), make, error, text)
        for name, call in REDUCING.items()
        for kind, (make, op, error, text) in REDUCTIONS.items()
        if not (name.startswith("coalesced") and op == dist.ReduceOp.MAX)  # which PyTorch refuses, after it has begun to collect
    ]


def the_last_tensor_is_wrong() -> list[str]:
    """What was looked at before it is not changed, not even by the factor of a sum of multiples."""
    said = []
    op = dist._make_nccl_premul_sum(2.0)
    other = torch.device("rustdev", 1 - device().index)
    kinds: dict[str, tuple[Maker, Any, str]] = {
        "column": (LAYOUTS["column"][0], ValueError, "must be contiguous"),
        "other device": (lambda n: numbers(n, where=other), (ValueError, RuntimeError), "device"),
        "of the CPU": (lambda n: numbers(n, where=torch.device("cpu")), (ValueError, RuntimeError), ""),
        "other dtype": (lambda n: numbers(n, torch.int16), (TypeError, ValueError), ""),
    }
    for name, call in {**MOVING, **REDUCING}.items():
        counted: list[int] = []
        alone = name in ("broadcast", "all_reduce", "reduce", "send and recv")
        if alone or name in ("gather", "scatter"):  # whose list is another test's
            continue
        call(lambda n, counted=counted: counted.append(n) or numbers(n), SUM)
        for kind, (make, error, text) in kinds.items():
            if kind != "column" and name in ("coalesced broadcast", "batch_isend_irecv"):
                continue  # each is an operation of its own
            if kind == "other dtype" and name == "allgather_coalesced":
                continue
            left = list(counted)

            def one(count: int, left: list[int] = left, make: Maker = make) -> Tensor:
                left.pop()
                return numbers(count) if left else make(count)

            said.append(refused(f"{name}, {kind}", lambda t, call=call: call(t, op), one, error, text))
    return said


def sizes_and_numbers() -> list[str]:
    count, rank = ranks(), dist.get_rank()
    group = dist.group.WORLD

    def rows(output: list[int], source: list[int], wide: int = 4) -> Callable[[Maker], object]:
        return lambda t: dist.all_to_all_single(t(wide), t(wide), output, source)

    cases: dict[str, tuple[Callable[[Maker], object], Any, str]] = {
        "broadcast, root": (lambda t: group.broadcast([t(4)], options(c10d.BroadcastOptions, rootRank=9)), ValueError, "root"),
        "broadcast, negative root": (
            lambda t: group.broadcast([t(4)], options(c10d.BroadcastOptions, rootRank=-1)), ValueError, "root",
        ),
        "reduce, root": (lambda t: group.reduce([t(4)], options(c10d.ReduceOptions, rootRank=9)), ValueError, "root"),
        "gather, root": (lambda t: group.gather([], [t(4)], options(c10d.GatherOptions, rootRank=9)), ValueError, "root"),
        "scatter, root": (lambda t: group.scatter([t(4)], [], options(c10d.ScatterOptions, rootRank=9)), ValueError, "root"),
        "all_gather, own": (lambda t: dist.all_gather([t(4)] * count, t(3)), ValueError, "own rank"),
        "all_gather, list": (lambda t: dist.all_gather([t(4)] * (count - 1), t(4)), RuntimeError, "each of the"),
        "all_gather, no list": (lambda t: dist.all_gather([], t(4)), RuntimeError, ""),
        "all_gather, no lists": (lambda t: group.allgather([], [t(4)]), RuntimeError, ""),
        "all_gather, two lists": (lambda t: group.allgather([[t(4)] * count] * 2, [t(4)]), RuntimeError, ""),
        "all_gather, strides": (
            lambda t: dist.all_gather([t(4).view(2, 2)] * count, t(4).view(2, 2).t()), ValueError, "same strides",
        ),
        "all_gather_into_tensor": (lambda t: dist.all_gather_into_tensor(t(4), t(4)), ValueError, "times the elements"),
        "reduce_scatter, own": (lambda t: dist.reduce_scatter(t(3), [t(4)] * count), ValueError, "own rank"),
        "reduce_scatter, list": (lambda t: dist.reduce_scatter(t(4), [t(4)] * (count + 1)), RuntimeError, "each of the"),
        "reduce_scatter, no list": (lambda t: dist.reduce_scatter(t(4), []), RuntimeError, ""),
        "reduce_scatter_tensor": (lambda t: dist.reduce_scatter_tensor(t(4), t(4)), ValueError, "times the elements"),
        "all_gather coalesced": (
            lambda t: group.allgather_coalesced([[t(4)]] * count, [t(4), t(4)]), RuntimeError, "lists",
        ),
        "all_gather coalesced, no list": (lambda t: group.allgather_coalesced([], [t(4)]), RuntimeError, ""),
        "all_gather coalesced, empty lists": (lambda t: group.allgather_coalesced([[]] * count, [t(4)]), RuntimeError, ""),
        "all_gather_into_tensor coalesced": (
            lambda t: backend().all_gather_single_coalesced([t(8)], [t(4), t(4)], c10d.AllgatherOptions()), ValueError, "as many",
        ),
        "reduce_scatter_tensor coalesced": (
            lambda t: backend().reduce_scatter_single_coalesced([t(4), t(4)], [t(8)], c10d.ReduceScatterOptions()),
            ValueError, "as many",
        ),
        "all_to_all, own": (
            lambda t: dist.all_to_all([t(4)] * count, [t(3 if it == rank else 4) for it in range(count)]), ValueError, "own rank",
        ),
        "all_to_all, list": (lambda t: dist.all_to_all([t(4)] * count, [t(4)]), RuntimeError, "lists"),
        "all_to_all, no list": (lambda t: dist.all_to_all([], [t(4)]), RuntimeError, ""),
        "all_to_all_single, negative": (rows([-1, 5], [-1, 5]), ValueError, "split sizes"),
        "all_to_all_single, sum": (rows([1, 1], [2, 2]), ValueError, "split sizes"),
        "all_to_all_single, own": (rows([1, 3], [3, 1]), ValueError, "own rank"),
        "all_to_all_single, length": (rows([], [], 3), ValueError, "cannot divide"),
        "message, tag": (lambda t: (group.recv if rank else group.send)([t(4)], 1 - rank, -1), RuntimeError, "nonnegative"),
        "message, any source": (lambda t: group.recv_anysource([t(4)], -1), RuntimeError, "nonnegative"),
        "message, rank": (lambda t: (group.recv if rank else group.send)([t(4)], 9, 0), ValueError, "invalid rank"),
        "message, own rank": (lambda t: group.send([t(4)], rank, 0), ValueError, "invalid rank"),
        "gather, two tensors": (lambda t: group.gather([], [t(4)] * 2, c10d.GatherOptions()), ValueError, "one tensor"),
        "all_reduce, factor": (
            lambda t: dist.all_reduce(t(2), dist._make_nccl_premul_sum(torch.ones(1))), ValueError, "as a factor",
        ),
    }  # fmt: skip
    said = [refused(name, call, numbers, kind, text) for name, (call, kind, text) in cases.items()]
    return [re.sub(r"rank \d|\d+ bytes|receives \d+", "", it) for it in said]


CASES = (tensors_that_nobody_takes, reductions_that_nobody_makes, the_last_tensor_is_wrong, sizes_and_numbers)


@pytest.mark.parametrize("cases", CASES, ids=lambda function: function.__name__)
def test_every_rank_refuses_alike_and_the_next_operation_is_right(pair: Workers, cases: Callable[[], list[str]]) -> None:
    first, second = pair.run(cases)
    assert first == second
    assert first


def of_nothing() -> None:
    """Tensors without elements are taken, alone and beside others."""
    for name, call in {**MOVING, **REDUCING}.items():
        for op in (SUM, dist._make_nccl_premul_sum(2.0)):
            call(lambda n: torch.empty(0, n, device=device()), op)
            total = numbers(4)
            dist.all_reduce(total)
            assert total.tolist() == [2.0, 4.0, 6.0, 8.0], name
    rank = dist.get_rank()
    outputs = [torch.zeros(3, device=device()), torch.zeros(0, device=device())]
    dist.all_gather(outputs, numbers(0 if rank else 3))
    assert [it.tolist() for it in outputs] == [[1.0, 2.0, 3.0], []]
    output = torch.zeros(0 if rank else 3, device=device())
    dist.reduce_scatter(output, [numbers(3), numbers(0)])
    assert output.tolist() == [] if rank else [2.0, 4.0, 6.0]


def test_tensors_without_elements_are_taken(pair: Workers) -> None:
    pair.run(of_nothing)


def caught_within() -> None:
    """A program that goes on in the block of which an operation was refused learns that the others were not issued."""

    def broadcast_twice() -> None:
        dist.broadcast(numbers(4), 0)
        assert isinstance(raised(lambda: dist.broadcast(torch.ones(4, 2, device=device())[:, 0], 0)), ValueError)

    with pytest.raises(RuntimeError, match="since one was refused"):
        coalesced(broadcast_twice)
    total = numbers(4)
    dist.all_reduce(total)
    assert total.tolist() == [2.0, 4.0, 6.0, 8.0]


def test_a_refusal_within_coalesced_operations_drops_them_aloud(pair: Workers) -> None:
    pair.run(caught_within)


def shapes_of_own_parts() -> None:
    """Of this rank's own tensor memory is what counts, as it is of the others'."""
    rank = dist.get_rank()
    outputs = [torch.zeros(2, 3, device=device()), torch.zeros(2, 2, device=device())]
    dist.all_gather(outputs, numbers(4 if rank else 6))
    assert [it.flatten().tolist() for it in outputs] == [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 2.0, 3.0, 4.0]]
    received = [torch.zeros(2, 2, device=device()) for _ in range(2)]
    dist.all_to_all(received, [numbers(4), numbers(4)])
    assert [it.tolist() for it in received] == [[[1.0, 2.0], [3.0, 4.0]]] * 2
    factor = torch.full((1,), 2.0, dtype=torch.float64, device=device())
    output = torch.zeros((), device=device())
    dist.reduce_scatter_tensor(output, numbers(2), dist._make_nccl_premul_sum(factor))
    assert output.item() == 4.0 * (rank + 1)


def test_shapes_do_not_matter_where_the_memory_is_the_same(pair: Workers) -> None:
    pair.run(shapes_of_own_parts)


def refused_by_the_root(store: str) -> list[str]:
    """Only the root knows its list. The next operations are right; in the end the others' fails, and says which one."""
    errors = []
    for number, name in enumerate(("gather", "scatter")):
        rank = join(f"{store}{number}")
        tensor = torch.ones(4, device="rustdev")
        dist.all_reduce(tensor)
        short = [torch.ones(3, device="rustdev")] * 2 if rank == 0 else None
        dist.group.WORLD._get_backend(tensor.device)._set_default_timeout(timedelta(seconds=1))
        call = getattr(dist, name)
        work = None
        if rank == 0:
            with pytest.raises(ValueError, match="one size") as refusal:
                call(torch.ones(4, device="rustdev"), short, 0)
            errors.append(str(refusal.value))
        else:
            work = call(kept := torch.full((4,), 7.0, device="rustdev"), None, 0, async_op=True)
        for _ in range(3):
            total = torch.full((4,), rank + 1.0, device="rustdev")
            dist.all_reduce(total)
            assert total.tolist() == [3.0] * 4, (name, total.tolist())
        if work is not None:
            while not work.is_completed():
                pass
            assert kept.tolist() == [7.0] * 4
            errors.append(str(work.exception()))
        dist.distributed_c10d._get_default_store().set(f"{name} {rank}", "over")
        dist.distributed_c10d._get_default_store().wait([f"{name} {1 - rank}"])
        dist.destroy_process_group()
    return errors


def test_what_the_root_alone_refuses_gives_no_wrong_numbers(joiners: Workers, tmp_path: Path) -> None:
    refusals, failures = joiners.run(refused_by_the_root, str(tmp_path / "store"))
    assert [it.split()[0] for it in refusals] == ["gather", "scatter"]
    assert [it.split()[0] for it in failures] == ["gather", "scatter"]
