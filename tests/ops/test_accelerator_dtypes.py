"""Histograms of integers, which other accelerators support and PyTorch's CPU device rejects, and of floats."""

import math

import pytest
import torch
from comparison import CPU, INTEGERS, compare, compare_errors

WIDE = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_have_a_histogram(dtype: torch.dtype) -> None:
    given = torch.randint(0, 16, (3, 500)).to(dtype)
    counts = torch.histc(given.fmod(10).to("rustdev"), bins=10, min=0, max=9)
    assert counts.dtype == dtype
    assert counts.tolist() == given.fmod(10).flatten().bincount(minlength=10).to(dtype).tolist()
    wide, narrow = torch.histc(given.double(), 7, 2, 11), torch.histc(given.to("rustdev"), 7, 2, 11)
    assert narrow.tolist() == wide.to(dtype).tolist()
    out = torch.empty(7, dtype=dtype, device="rustdev")
    assert torch.histc(given.to("rustdev"), 7, 2, 11, out=out) is out
    assert out.tolist() == narrow.tolist()


def test_integers_without_limits_are_counted_between_the_least_and_the_greatest() -> None:
    assert torch.histc(torch.tensor([3, 4, 4, 5], device="rustdev"), 3).tolist() == [1, 2, 1]
    assert torch.histc(torch.tensor([7, 7], device="rustdev"), 4).tolist() == [0, 0, 2, 0]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0,), "bins must be > 0"),
        ((3, 2, 1), "max must be larger than min"),
        ((3, 0, 1, torch.empty(3, device="rustdev")), "dtype Int, but got Float"),
        ((3, 0, 1, torch.empty(3, dtype=torch.int32)), "same device"),
    ],
)
def test_a_histogram_of_integers_refuses_what_others_refuse(arguments: tuple, text: str) -> None:
    ones = torch.ones(3, dtype=torch.int32, device="rustdev")
    with pytest.raises(RuntimeError, match=text):
        torch.histc(ones, *arguments[:3], **({"out": arguments[3]} if len(arguments) > 3 else {}))


def numbers(count: int, dtype: torch.dtype) -> torch.Tensor:
    """Return values, some of them on edges of bins, and some that no bin has."""
    drawn = torch.randn(count, generator=torch.Generator().manual_seed(count), dtype=torch.float64).mul(2)
    drawn[::7] = drawn[::7].round()
    if count > 10:
        drawn[3], drawn[4] = math.inf, -math.inf
    return drawn.to(dtype)


@WIDE
@pytest.mark.parametrize("count", [1, 50, 100_000])
def test_histc(count: int, dtype: torch.dtype) -> None:
    given = numbers(count, dtype)
    for limits in [(10, -3, 3), (1, -1, 2), (100, -2.5, 2.25), (64, 0, 5)]:
        compare(torch.histc, given, *limits)
    finite = given[given.isfinite()].view(-1, 1)
    compare(torch.histc, finite, 20)
    compare(lambda x, out: torch.histc(x, 20, -1, 1, out=out), finite, torch.empty(40, dtype=dtype).zero_()[::2])


def test_nothing_to_count_and_errors() -> None:
    compare(torch.histc, torch.ones(0), 3, 0, 1)
    compare(torch.histc, torch.full((5,), math.nan), 3, 0, 1)
    for arguments in ((0,), (3, 2, 1)):
        compare_errors(lambda device, given=arguments: torch.histc(torch.ones(3, device=device), *given), CPU)
    compare_errors(torch.histc, torch.ones(3).bool(), 3, 0, 1, text=False)
    compare_errors(torch.histc, torch.ones(3) * math.inf, 3, text=False)


@pytest.mark.parametrize("weighted", [False, True])
@WIDE
def test_histogram(dtype: torch.dtype, weighted: bool) -> None:
    given = torch.stack([numbers(60_000, dtype)] * 2)[:, ::3].nan_to_num(posinf=1, neginf=0)
    # Multiples of 1/8: their sums are exact in every order.
    weight = torch.randint(8, given.shape).to(dtype).div(8) if weighted else None
    edges = torch.tensor([-3.0, -1.0, 0.0, 0.5, 0.5, 4.0], dtype=dtype)
    compare(lambda x, bins, w: torch.histogram(x, bins, weight=w), given, edges, weight, rtol=1e-6)
    compare(lambda x, w: torch.histogram(x, bins=7, range=(-2.0, 3.0), weight=w, density=True), given, weight, rtol=1e-6)
