"""Indexing operators against the CPU, with the fallback forbidden."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from comparison import TOLERANCE, assert_any_threads, compare, compare_errors, compare_outcomes
from torch.nn import functional

Call = Callable[..., Any]


def finish(call: Call, *args: Any) -> None:
    """Call, and wait for the device."""
    call(*args)
    torch.rustdev.synchronize()


def integers(high: int, *shape: int, low: int = 0) -> torch.Tensor:
    """Return random integers on the CPU."""
    return torch.randint(low, high, shape)


INDICES: list[Call] = [
    lambda: (integers(9, 40, low=-9),),
    lambda: (slice(None), integers(8, 6, 1), integers(7, 5)),
    lambda: (integers(9, 4), slice(None), integers(7, 4)),
    lambda: (Ellipsis, integers(7, 3, low=-7)),
    lambda: (torch.rand(9) < 0.5,),
    lambda: (torch.rand(9, 8) < 0.5, integers(7, 1)),
    lambda: (torch.rand(9, 8, 7) < 0.5,),
    lambda: (slice(None), torch.rand(8, 7) < 0.3),
    lambda: (torch.zeros(0, dtype=torch.long),),
    lambda: (None, integers(9, 2, 2).int(), slice(2, 5)),
]


@pytest.mark.parametrize("make", INDICES)
def test_advanced_indexing(make: Call) -> None:
    tensor, indices = torch.randn(9, 8, 7), make()
    compare(lambda x, i: x[i], tensor, indices)
    compare(lambda x, i: x[i], tensor.permute(2, 1, 0).contiguous().permute(2, 1, 0), indices)
    compare(lambda x, i: x[(slice(None), *i)], torch.randn(2, 9, 8, 7), indices)

    def put(x: torch.Tensor, i: Any, value: Any) -> torch.Tensor:
        x[i] = value
        return x

    compare(put, tensor, indices, 2.5)
    compare(put, tensor, indices, torch.tensor(7.0))
    if None not in indices:
        source = torch.randn_like(tensor[indices])
        usual = tuple(index for index in indices if isinstance(index, torch.Tensor))
        if len(usual) == len(indices):
            compare(lambda x, i, y: x.index_put_(i, y, accumulate=True), tensor, usual, source)


def test_sums_have_the_same_bits_for_any_number_of_threads() -> None:
    index, source = integers(500, 300_000).to("rustdev"), torch.randn(300_000).to("rustdev")
    assert_any_threads(lambda: torch.zeros(500, device="rustdev").index_put_((index,), source, accumulate=True))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2])
def test_embedding_bags(mode: str, padding: int | None) -> None:
    def run(
        weight: torch.Tensor, index: torch.Tensor, offsets: torch.Tensor, grad: torch.Tensor, scale: torch.Tensor | None
    ) -> tuple[Any, ...]:
        leaves = [value.detach().requires_grad_() for value in (weight, scale) if value is not None]
        scales = leaves[1] if scale is not None else None
        result = functional.embedding_bag(index, leaves[0], offsets, mode=mode, per_sample_weights=scales, padding_idx=padding)
        return result, torch.autograd.grad(result, leaves, grad)

    weight, index, offsets, grad = torch.randn(9, 70), integers(9, 50), torch.tensor([0, 3, 3, 40]), torch.randn(4, 70)
    compare(run, weight, index, offsets, grad, None, rtol=1e-5)
    if mode == "sum":
        compare(run, weight, index, offsets, grad, torch.randn(50), rtol=1e-5)


@pytest.mark.parametrize("by_frequency", [False, True])
@pytest.mark.parametrize("padding", [-1, 3])
def test_gradients_of_embeddings(padding: int, by_frequency: bool) -> None:
    def backward(grad: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.embedding_dense_backward(grad, index, 9, padding, by_frequency)

    for cols in (1, 5, 64):
        compare(backward, torch.randn(4, 50, cols), integers(9, 4, 50), rtol=TOLERANCE)
    compare(backward, torch.randn(20_000, 64), integers(9, 20_000), rtol=TOLERANCE)


def test_renorm_and_bincount() -> None:
    compare(lambda x, i: torch.embedding_renorm_(x, i, 1.0, 2.0), torch.randn(9, 20), integers(9, 4))
    # Norms and factors are rounded to the table's dtype, as the CPU's are.
    for dtype in (torch.bfloat16, torch.float16):
        table = torch.linspace(-7, 9, 1800).reshape(90, 20).to(dtype)
        compare(lambda x, i: torch.embedding_renorm_(x, i, 1.0, 2.0), table, torch.arange(90))
    index = integers(100, 5000)
    compare(torch.bincount, index)
    compare(lambda i, w: torch.bincount(i, w, minlength=120), index.to(torch.uint8), torch.rand(5000))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: x.gather(0, i),
        lambda x, i: x.index_select(0, i),
        lambda x, i: x.take(i),
        lambda x, i: x[i],
        lambda x, i: x.scatter_(0, i, 1.0),
        lambda x, i: x.index_add_(0, i, x[:3].clone()),
        lambda x, i: x.index_put_((i,), x[0].clone(), accumulate=True),
        lambda x, i: x.index_fill_(0, i, 1.0),
        lambda x, i: functional.embedding(i, x.view(-1, 1)),
    ],
)
@pytest.mark.parametrize("index", [4, 70_000])
def test_an_index_out_of_bounds_is_an_error_and_the_device_goes_on(call: Call, index: int) -> None:
    guard = torch.arange(12.0).to("rustdev")
    tensor = guard[4:8]
    with pytest.raises((torch.AcceleratorError, IndexError), match="out of bounds"):
        finish(call, tensor, torch.tensor([0, index, 1], device="rustdev"))
    torch.rustdev.synchronize()
    assert guard[:4].tolist() == [0.0, 1.0, 2.0, 3.0]
    assert guard[8:].tolist() == [8.0, 9.0, 10.0, 11.0]
    assert torch.gather(guard, 0, torch.tensor([5], device="rustdev")).shape == (1,)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i, _: x.gather(0, i.expand(1, 3)),
        lambda x, i, rows: x.scatter_add_(0, i.expand(1, 3), rows),
        lambda x, i, rows: x.index_add_(0, i[0], rows),
        lambda x, i, rows: x.index_reduce_(0, i[0], rows, "prod"),
        lambda x, i, rows: x.index_copy_(0, i[0], rows),
        lambda x, i, rows: x.index_fill_(0, i[0], 1.0),
    ],
)
def test_an_index_into_nothing_is_refused_by_the_call(call: Call) -> None:
    nothing, index = torch.zeros(0, 3, device="rustdev"), torch.zeros(1, 1, dtype=torch.long, device="rustdev")
    with pytest.raises(RuntimeError, match="index is out of bounds for dimension with size 0"):
        call(nothing, index, torch.ones(1, 3, device="rustdev"))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: x.index_add_(0, i, x[:2, :1]),
        lambda x, i: x[i, i, i],
        lambda x, i: x[i, i[:1].expand(3)],
        lambda x, i: x[i == 1],
        lambda x, i: x.index_put_((i,), x),
        lambda x, i: x.masked_fill_(x, 1),
    ],
)
def test_sizes_that_do_not_fit_are_refused(call: Call) -> None:
    compare_errors(call, torch.zeros(3, 4), torch.tensor([0, 1]), text=False)


def test_a_source_with_too_few_elements_is_an_error_of_the_task() -> None:
    with pytest.raises(torch.AcceleratorError, match="elements of source"):
        finish(lambda x: x.masked_scatter_(x == 0, torch.ones(5, device="rustdev")), torch.zeros(3, 4, device="rustdev"))


@pytest.mark.parametrize("first", [torch.int64, torch.int32])
@pytest.mark.parametrize("second", [torch.int64, torch.int32])
def test_dtypes_of_indices_of_bags(first: torch.dtype, second: torch.dtype) -> None:
    index, offsets = torch.tensor([0, 2, 1, 1], dtype=first), torch.tensor([0, 2], dtype=second)
    compare_outcomes(functional.embedding_bag, index, torch.rand(3, 2), offsets, rtol=1e-6)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_that_overlap_are_an_error_of_the_task(mode: str) -> None:
    index, table, offsets = (it.to("rustdev") for it in (torch.tensor([0, 2, 1, 1]), torch.rand(3, 2), torch.tensor([0, 3, 1])))
    with pytest.raises(torch.AcceleratorError, match="offsets of bags must not decrease"):
        finish(lambda: functional.embedding_bag(index, table, offsets, mode=mode))


@pytest.mark.filterwarnings("ignore:.*is in beta")  # the CPU's own, once in a process
@pytest.mark.parametrize("dim", [0, 1])
def test_gather_and_scatter(dim: int) -> None:
    # Sums of whole numbers are exact in any order.
    tensor, source, index = torch.randn(100, 400).mul(8).round(), torch.randn(90, 300).mul(8).round(), integers(100, 90, 300)
    close = functools.partial(compare, signs=False)
    for target in (tensor, tensor.t().contiguous().t(), torch.cat([tensor, tensor], 1)[:, ::2]):
        close(lambda x, i: x.gather(dim, i), target, index)
        close(lambda x, i: x.scatter_(dim, i, 1), target, index)
        close(lambda x, i, y: x.scatter_add(dim, i, y), target, index, source)
        for kind in ("sum", "amax", "amin"):
            close(lambda x, i, y, k=kind: x.scatter_reduce(dim, i, y, k, include_self=False), target, index, source)
