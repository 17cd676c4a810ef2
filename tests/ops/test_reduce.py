"""Reductions against the CPU: dtypes, dimensions, strides, ties, NaN, dtype=, out=, empty reductions, errors and warnings."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from comparison import COMPLEX, FLOATS, SUMS, compare, compare_errors, make_tensor

DTYPES = [torch.bool, torch.uint8, torch.int64, *FLOATS]
close = partial(compare, rtol=SUMS)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_aminmax(dtype: torch.dtype) -> None:
    host = make_tensor((30, 40), dtype, whole=3)
    spoilt = host.clone()
    if dtype.is_floating_point:
        spoilt[3, 5], spoilt[20] = torch.nan, torch.nan
    for given in (host, spoilt):
        compare(torch.aminmax, given)
        for dim in (0, 1):
            compare(lambda x, dim=dim: torch.aminmax(x, dim=dim, keepdim=True), given)


HOST = make_tensor((30, 40), torch.float32)
SPOILT = HOST.clone().index_fill_(0, torch.tensor(3), torch.nan)
#: By what they are, a call and its arguments; results of `out` come last.
CALLS: dict[str, Any] = {
    "sum of halves in doubles": (lambda x: x.sum(0, dtype=torch.float64), HOST.half()),
    "sum of integers in fewer bits": (lambda x: x.sum(1, dtype=torch.int32), HOST.long()),
    "mean of integers": (lambda x: x.mean(dtype=torch.float32), HOST.long()),
    "product of integers in floats": (lambda x: x[:3].prod(0, dtype=torch.float32), HOST.int()),
    "all of no dimensions": (lambda x: (torch.all(x, ()), torch.any(x, (), keepdim=True)), HOST),
    "nansum": (lambda x: torch.nansum(x, 1, keepdim=True, dtype=torch.float64), SPOILT),
    "norm in doubles": (lambda x: torch.linalg.vector_norm(x, dtype=torch.float64), HOST),
    "norm of large and small": (lambda x: torch.linalg.vector_norm(x, 2, 1), torch.tensor([[1e30], [-1e-30]])),
    "sum out, resized": (lambda x, out: torch.sum(x, 0, out=out), HOST.int(), torch.empty(0, dtype=torch.int64)),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    close(*CALLS[name])


def test_dimensions_around_those_that_are_kept() -> None:
    tensor = torch.randn(2, 3, 4, 5, 6)
    for dims in ((0, 2), (0, 1), (0, 1, 3), (1, 3), (2, 3, 4)):
        compare(lambda x, dims=dims: x.amax(dims), tensor)
        compare(lambda x, dims=dims: x.sum(dims), tensor, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_greatest_and_least_magnitudes_are_those_of_abs(dtype: torch.dtype) -> None:
    parts = torch.randn(2, 300, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    device = torch.complex(*parts).to(dtype).to("rustdev")
    for dim in (0, 1):
        assert torch.equal(torch.linalg.vector_norm(device, float("inf"), dim), device.abs().amax(dim))
        assert torch.equal(torch.linalg.vector_norm(device, -float("inf"), dim), device.abs().amin(dim))
        leaf = device.detach().requires_grad_()
        norms = torch.linalg.vector_norm(leaf, float("inf"), dim)
        (gradient,) = torch.autograd.grad(norms, leaf, torch.ones_like(norms))
        assert torch.equal((gradient != 0).sum(dim), torch.ones_like(norms, dtype=torch.int64))


def test_large_sums_are_exact_enough() -> None:
    host = make_tensor((1000, 1500), torch.float32)
    device = host.to("rustdev")
    for dims in ((0,), (1,), (0, 1)):
        torch.testing.assert_close(device.sum(dims).cpu().double(), host.double().sum(dims), rtol=1e-6, atol=1e-3)


ONES, NOTHING = torch.ones(2, 3), torch.empty(0, 3)
#: Calls that are refused, and of what.
REFUSED: dict[str, tuple[Callable[..., Any], torch.Tensor]] = {
    "sum, a dimension": (lambda x: x.sum(2), ONES),
    "sum, one twice": (lambda x: x.sum((0, 0)), ONES),
    "var, a dimension": (lambda x: x.var(5), ONES),
    "var, one twice": (lambda x: x.var((0, 0)), ONES),
    "max, a dimension": (lambda x: x.max(2), ONES),
    "max of nothing": (torch.max, NOTHING),
    "amax of nothing": (lambda x: x.amax(0), NOTHING),
    "argmax of nothing": (lambda x: x.argmax(0), NOTHING),
}
REFUSED |= {
    f"{function.__name__} of integers": (function, ONES.long())
    for function in (torch.mean, torch.var, torch.std, torch.var_mean, torch.std_mean)
}


def test_errors_and_warnings_are_those_of_the_cpu() -> None:
    for function, given in REFUSED.values():
        compare_errors(function, given)
    for given in (torch.empty(0), torch.empty(0, 3), torch.empty(3, 0)):
        with pytest.warns(UserWarning, match="degrees of freedom"):
            compare(torch.var, given)
    with pytest.warns(UserWarning, match="degrees of freedom"):
        compare(lambda x: torch.var(x, 0), torch.empty(3, 0))
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert ONES[:1, :1].to("rustdev").var().cpu().isnan().item()
