"""Tensors with overlapping elements, sizes of 0 and mixed kinds of operands: results and errors are those of the CPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from comparison import compare_outcomes
from torch.nn import functional

aten = torch.ops.aten
Call = Callable[..., Any]

#: Operators whose result shares one element: sizes of operands, sizes of the result, and a call if it is another one.
INTO_ONE: dict[str, tuple[list[tuple[int, ...]], tuple[int, ...], Call | None]] = {
    "mm": ([(3, 3), (3, 3)], (3, 3), None),
    "addmm": ([(3, 3), (3, 3), (3, 3)], (3, 3), None),
    "addmv": ([(3,), (3, 3), (3,)], (3,), None),
    "bmm": ([(2, 3, 3), (2, 3, 3)], (2, 3, 3), None),
    "matmul": ([(3, 3), (3, 3)], (3, 3), None),
    "vecdot": ([(3, 4), (3, 4)], (3,), torch.linalg.vecdot),
    "msort": ([(5,)], (5,), None),
    "cumsum": ([(5,)], (5,), lambda x, out: torch.cumsum(x, 0, out=out)),
    "cumprod": ([(5,)], (5,), lambda x, out: torch.cumprod(x, 0, out=out)),
    "logcumsumexp": ([(5,)], (5,), lambda x, out: torch.logcumsumexp(x, 0, out=out)),
    "mean": ([(3, 4)], (4,), lambda x, out: torch.mean(x, 0, out=out)),
    "add": ([(5,)], (5,), lambda x, out: torch.add(x, 1, out=out)),
    "histc": ([(5,)], (3,), lambda x, out: torch.histc(x, 3, out=out)),
    "aminmax": ([(5, 5), (5,)], (5,), lambda x, y, out: torch.aminmax(x, dim=0, out=(out, y))),
    "reflection_pad1d": ([(1, 4)], (1, 6), lambda x, out: aten.reflection_pad1d.out(x, [1, 1], out=out)),
    "reflection_pad2d": ([(1, 3, 3)], (1, 5, 5), lambda x, out: aten.reflection_pad2d.out(x, [1] * 4, out=out)),
    "replication_pad1d": ([(1, 4)], (1, 6), lambda x, out: aten.replication_pad1d.out(x, [1, 1], out=out)),
    "glu_backward": ([(1,), (2,)], (2,), lambda x, y, out: aten.glu_backward.grad_input(x, y, 0, grad_input=out)),
    "sort": ([(5,)], (5,), lambda x, out: torch.sort(x, out=(out, out.new_empty(5, dtype=torch.int64)))),
    "multinomial": ([(5,)], (3,), lambda x, out: torch.multinomial(x, 3, out=out.long()[:1].expand(3))),
    "cumsum_": ([], (5,), lambda out: out.cumsum_(0)),
    "addmm_": ([(3, 3), (3, 3)], (3, 3), lambda x, y, out: out.addmm_(x, y)),
    "zero_": ([], (3,), lambda out: out.zero_()),
    "fill_": ([], (3,), lambda out: out.fill_(2)),
    "fill_diagonal_": ([], (3, 3), lambda out: out.fill_diagonal_(1.0)),
    "_foreach_zero_": ([], (4,), lambda out: torch._foreach_zero_([out])),
    "ones": ([], (3,), lambda out: torch.ones(3, out=out)),
    "zeros": ([], (3,), lambda out: torch.zeros(3, out=out)),
    "full": ([], (3,), lambda out: torch.full((3,), 2.0, out=out)),
    "empty": ([], (3,), lambda out: torch.empty(3, out=out)),
    "eye": ([], (3, 3), lambda out: torch.eye(3, out=out)),
    "randperm": ([], (5,), lambda out: torch.randperm(5, out=out.long()[:1].expand(5)).shape),
}
for name in ("max", "min", "median", "nanmedian", "kthvalue", "topk"):
    sizes, further = {"topk": ((2, 4), (2, 0)), "kthvalue": ((4,), (2, 0))}.get(name, ((4,), (0,)))
    INTO_ONE[f"value of {name}"] = (
        [(5, 4)],
        sizes,
        lambda x, out, name=name, further=further: getattr(torch, name)(x, *further, out=(out, out.long().contiguous())),
    )
    INTO_ONE[f"place of {name}"] = (
        [(5, 4)],
        sizes,
        lambda x, out, name=name, further=further: getattr(torch, name)(
            x, *further, out=(out.contiguous(), out.long().flatten()[0].expand(out.shape))
        ),
    )

#: Operators whose result lies an element further in the memory of the first operand: sizes of operands, and a call.
ACROSS: dict[str, tuple[list[tuple[int, ...]], Call]] = {
    **{
        name: ([(4,)], lambda x, out, name=name: getattr(torch, name)(x, 0, out=out))
        for name in ("cumsum", "cumprod", "logcumsumexp")
    },
    "addmm": ([(3, 3), (3, 3), (3, 3)], lambda *given: torch.addmm(*given[:-1], out=given[-1])),
    "addmv": ([(3,), (3, 3), (3,)], lambda *given: torch.addmv(*given[:-1], out=given[-1])),
    "msort": ([(5,)], lambda x, out: torch.msort(x, out=out)),
    "sort": ([(5,)], lambda x, out: torch.sort(x, out=(out, out.long()))),
    "topk": ([(5,)], lambda x, out: torch.topk(x, 5, out=(out, out.long()))),
}


def unscale(plain: torch.Tensor) -> object:
    """Unscale gradients of several dtypes and layouts."""
    gradients = [plain.clone(), plain.clone().t(), plain.clone()[:, ::2], plain.half(), plain.double(), plain.clone()[0, ::2]]
    infinite = plain.new_zeros(1)
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, infinite, plain.new_full((1,), 0.5))
    return gradients, infinite


#: Of numbers from 0 to 1 of a size.
MIXED: dict[str, tuple[tuple[int, ...], Call]] = {
    "layer_norm of nothing": ((5, 0, 4), lambda x: functional.layer_norm(x, (4,), x.new_ones(4), x.new_ones(4))),
    "where of two numbers of the CPU": ((4,), lambda x: torch.where(x > 0.5, torch.tensor(1.0), torch.tensor(2.0))),
    "where of bfloat16 and complex": ((4,), lambda x: torch.where(x > 0.5, x.bfloat16(), x.cfloat())),
    "channel_shuffle of a transposed image": ((2, 6, 4, 5), lambda x: functional.channel_shuffle(x.transpose(2, 3), 3)),
    "unscaling of many kinds": ((4, 6), unscale),
}


def numbers(sizes: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    """Return random numbers from 0 to 1."""
    return torch.rand(sizes, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", INTO_ONE)
def test_results_in_one_element(name: str) -> None:
    shapes, sizes, call = INTO_ONE[name]
    call = call or (lambda *given: getattr(torch, name)(*given[:-1], out=given[-1]))
    compare_outcomes(call, *(numbers(it, seed) for seed, it in enumerate(shapes)), torch.zeros(()).expand(sizes))


@pytest.mark.parametrize("name", ACROSS)
def test_results_across_an_operand(name: str) -> None:
    shapes, call = ACROSS[name]
    size = torch.Size(shapes[0]).numel()

    def across(memory: torch.Tensor, *others: torch.Tensor) -> object:
        return call(memory[:size].view(shapes[0]), *others, memory[1:].view(shapes[0]))

    compare_outcomes(across, numbers((size + 1,)), *map(numbers, shapes[1:]))


@pytest.mark.parametrize("name", MIXED)
def test_mixed_kinds(name: str) -> None:
    size, call = MIXED[name]
    compare_outcomes(call, numbers(size), rtol=1e-6)


@pytest.mark.parametrize("first", [torch.int64, torch.int32])
@pytest.mark.parametrize("second", [torch.int64, torch.int32])
def test_dtypes_of_indices_of_bags(first: torch.dtype, second: torch.dtype) -> None:
    index, offsets = torch.tensor([0, 2, 1, 1], dtype=first), torch.tensor([0, 2], dtype=second)
    compare_outcomes(functional.embedding_bag, index, numbers((3, 2)), offsets, rtol=1e-6)
