"""Sums of many terms in 16 bits against float64: a short form of `make accuracy`."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.nn import functional

ROOT = Path(__file__).parents[2]
DTYPES = (torch.bfloat16, torch.float16)
#: So many terms of 1 are more than a sum in the dtype can be, which stands still at 256 and 2048.
TERMS = {torch.bfloat16: 1000, torch.float16: 4000}
#: What PyTorch's CPU kernels compute, or what is made of operators on the host.
NOT_OURS = ("bincount", "segment_reduce", "mean of segments", "sparse mm", "sparse mv", "coalesce", "to_dense", "sparse sum")


@pytest.fixture
def accuracy(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Return the command's module, of this process; the CPU device computes with one thread, as in the command."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    from accuracy import __main__ as command

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield command
    torch.set_num_threads(threads)


@pytest.mark.filterwarnings("ignore")  # the CPU's own, once in a process
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("group", ["meetings", "rows", "layers", "indices", "bags", "sums", "pools", "images", "sparse"])
def test_sums_are_rounded_once(accuracy: ModuleType, group: str, dtype: torch.dtype) -> None:
    terms = accuracy.meeting.Terms(TERMS[dtype], dtype)
    wrong = []
    for name, function, *arguments in getattr(accuracy.meeting, group)(terms):
        torch.rustdev.set_fallback_mode("allow" if name.startswith(NOT_OURS) else "error")
        found = accuracy.errors(accuracy.meeting.Call(name, terms.count, function, tuple(arguments)), dtype, "rustdev")
        assert found or name.startswith(("bincount", "histc")), name
        wrong += [accuracy.line(error) for error in found if error.is_finding and not name.startswith(tuple(accuracy.REASONS))]
    assert wrong == []


def test_a_sum_is_divided_by_a_count_that_its_dtype_does_not_hold() -> None:
    size = 2**17
    x = torch.full((size,), 0.25, dtype=torch.float16, device="rustdev", requires_grad=True)
    mean = x.nanmean()
    assert mean.item() == 0.25
    (gradient,) = torch.autograd.grad(mean, x)
    assert torch.equal(gradient.cpu(), torch.full((size,), 1 / size, dtype=torch.float16))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 50])
def test_the_order_of_indices_does_not_matter(dtype: torch.dtype, rows: int) -> None:
    """Whole numbers below 2^24 are exact in float32 in any order, so that the sum has one value."""
    slots, size = 20, 3000
    index = torch.randint(slots, (size,))
    values = torch.randint(0, 9, (size, rows)).to(dtype)
    exact = torch.zeros(slots, rows, dtype=torch.float64).index_add(0, index, values.double()).to(dtype)
    for order in (torch.arange(size), torch.arange(size).flip(0), torch.randperm(size), index.argsort()):
        i, v = index[order].to("rustdev"), values[order].to("rustdev")
        zeros = torch.zeros(slots, rows, dtype=dtype, device="rustdev")
        wide = i.unsqueeze(1).expand(-1, rows)
        for found in (
            zeros.index_add(0, i, v),
            zeros.scatter_add(0, wide, v),
            zeros.scatter_add(0, wide.contiguous(), v),
            zeros.index_put((i,), v, accumulate=True),
            zeros.t().index_add(1, i, v.t()).t(),
            torch.ops.aten.embedding_dense_backward(v, i, slots, -1, False),
        ):
            assert torch.equal(found.cpu(), exact)


@pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter")
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_there_counts_in_sums_and_means(dtype: torch.dtype) -> None:
    target = torch.tensor([3.0, 5.0, 7.0], dtype=dtype)
    index, ones = torch.zeros(4000, dtype=torch.long), torch.ones(4000, dtype=dtype)
    calls: list[Callable[[Any, Any, Any], Any]] = [
        lambda x, i, y: x.scatter_add_(0, i, y),
        lambda x, i, y: x.scatter_reduce_(0, i, y, "sum"),
        lambda x, i, y: x.scatter_reduce_(0, i, y, "mean"),
        lambda x, i, y: x.index_reduce_(0, i, y, "mean"),
        lambda x, i, y: x.index_add_(0, i, y, alpha=-2),
        lambda x, i, y: x.put_(i, y, accumulate=True),
        lambda x, i, y: x.scatter_(0, i, y, reduce="add"),
    ]
    for call in calls:
        for start in (target, target.repeat(8)[::8][:3], torch.arange(3.0).to(dtype).repeat(2, 1).t()[:, 0]):
            found = call(start.to("rustdev"), index.to("rustdev"), ones.to("rustdev")).cpu()
            assert torch.equal(found, call(start.double(), index, ones.double()).to(dtype))
    # A mean of numbers whose sum float16 does not hold.
    large = (100 * ones).to("rustdev")
    for found in (
        target.to("rustdev").scatter_reduce(0, index.to("rustdev"), large, "mean", include_self=False),
        target.to("rustdev").index_reduce(0, index.to("rustdev"), large, "mean", include_self=False),
    ):
        assert found.cpu().tolist() == [100.0, 5.0, 7.0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_tables_of_which_few_rows_are_used(dtype: torch.dtype) -> None:
    table = torch.zeros(5000, 24, dtype=dtype, device="rustdev", requires_grad=True)
    index = torch.tensor([4999, 7], device="rustdev").repeat(2000)
    for rows in (functional.embedding(index, table), functional.embedding(index, table, padding_idx=7), table[index]):
        (gradient,) = torch.autograd.grad(rows.sum(), table)
        found = gradient.cpu()
        assert found[4999].tolist() == [2000.0] * 24
        assert found[:4999].abs().sum(1).nonzero().flatten().tolist() in ([], [7])


def test_the_command_says_what_it_found(accuracy: ModuleType, tmp_path: Path) -> None:
    """An operator that rounds each sum is a finding, and the CPU's that does so as well is beside it."""

    def careless(x: torch.Tensor) -> torch.Tensor:
        total = x[0]
        for value in x[1:]:
            total = total + value
        return total

    state = accuracy.Sweep()
    state.look(accuracy.meeting.Call("careless", 600, careless, (torch.ones(600, dtype=torch.bfloat16),)), torch.bfloat16)
    state.look(accuracy.meeting.Call("sum", 600, torch.sum, (torch.ones(600, dtype=torch.bfloat16),)), torch.bfloat16)
    assert [(error.name, error.what, error.is_worse) for error in state.findings] == [("careless", "result 0", False)]
    text = accuracy.page(state, [600])
    assert "| careless | bfloat16 | result 0 |" in text
    assert "2 calls of 2 kinds" in text
