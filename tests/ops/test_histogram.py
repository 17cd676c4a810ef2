"""Histograms against the CPU."""

import math

import pytest
import torch

FLOATS = [torch.float32, torch.float64]

pytestmark = pytest.mark.usefixtures("strict")


def values(count: int, dtype: torch.dtype) -> torch.Tensor:
    """Return values, some of them on edges of bins, and some that no bin has."""
    drawn = torch.randn(count, generator=torch.Generator().manual_seed(count), dtype=torch.float64).mul(2)
    drawn[::7] = drawn[::7].round()
    if count > 10:
        drawn[3], drawn[4] = math.inf, -math.inf
    return drawn.to(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("count", [1, 50, 100_000])
def test_histc(count: int, dtype: torch.dtype) -> None:
    given = values(count, dtype)
    for bins, low, high in [(10, -3, 3), (1, -1, 2), (100, -2.5, 2.25), (64, 0, 5)]:
        mine, theirs = torch.histc(given.to("rustdev"), bins, low, high), torch.histc(given, bins, low, high)
        torch.testing.assert_close(mine.cpu(), theirs, rtol=0, atol=0)
    finite = given[given.isfinite()].view(-1, 1)[::1]
    torch.testing.assert_close(torch.histc(finite.to("rustdev"), 20).cpu(), torch.histc(finite, 20), rtol=0, atol=0)
    out = torch.empty(40, dtype=dtype, device="rustdev")[::2]
    torch.histc(finite.to("rustdev"), 20, -1, 1, out=out)
    torch.testing.assert_close(out.cpu(), torch.histc(finite, 20, -1, 1), rtol=0, atol=0)


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_histogram(dtype: torch.dtype, weighted: bool, density: bool) -> None:
    given = torch.stack([values(60_000, dtype)] * 2)[:, ::3].nan_to_num(posinf=1, neginf=0)
    # Multiples of 1/8: their sums are exact in every order, and the CPU's order depends on the number of its threads.
    weight = torch.randint(8, given.shape).to(dtype).div(8) if weighted else None
    on_device = None if weight is None else weight.to("rustdev")
    edges = torch.tensor([-3.0, -1.0, 0.0, 0.5, 0.5, 4.0], dtype=dtype)
    mine = torch.histogram(given.to("rustdev"), edges.to("rustdev"), weight=on_device, density=density and not weighted)
    theirs = torch.histogram(given, edges, weight=weight, density=density and not weighted)
    torch.testing.assert_close([part.cpu() for part in mine], list(theirs), equal_nan=True)
    for arguments in [{"bins": 12}, {"bins": 7, "range": (-2.0, 3.0)}]:
        mine = torch.histogram(given.to("rustdev"), weight=on_device, density=density, **arguments)
        theirs = torch.histogram(given, weight=weight, density=density, **arguments)
        torch.testing.assert_close([part.cpu() for part in mine], list(theirs))


def test_nothing_to_count() -> None:
    assert torch.histc(torch.ones(0, device="rustdev"), 3, 0, 1).tolist() == [0, 0, 0]
    assert torch.histc(torch.full((5,), math.nan, device="rustdev"), 3, 0, 1).tolist() == [0, 0, 0]


def test_errors() -> None:
    for device in ("cpu", "rustdev"):
        ones = torch.ones(3, device=device)
        with pytest.raises(RuntimeError, match="bins must be > 0"):
            torch.histc(ones, 0)
        with pytest.raises(RuntimeError, match="max must be larger than min"):
            torch.histc(ones, 3, 2, 1)
        with pytest.raises(NotImplementedError):
            torch.histc(torch.ones(3, device=device).bool(), 3, 0, 1)
        with pytest.raises(RuntimeError, match="finite"):
            torch.histc(ones * math.inf, 3)
