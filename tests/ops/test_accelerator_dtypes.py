"""Histograms of integers, which other accelerators support and PyTorch's CPU device rejects."""

import math

import pytest
import torch
from comparison import CPU, INTEGERS, compare, compare_errors


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


def test_nothing_to_count_and_errors() -> None:
    compare(torch.histc, torch.ones(0), 3, 0, 1)
    compare(torch.histc, torch.full((5,), math.nan), 3, 0, 1)
    for arguments in ((0,), (3, 2, 1)):
        compare_errors(lambda device, given=arguments: torch.histc(torch.ones(3, device=device), *given), CPU)
    compare_errors(torch.histc, torch.ones(3).bool(), 3, 0, 1, text=False)
    compare_errors(torch.histc, torch.ones(3) * math.inf, 3, text=False)
