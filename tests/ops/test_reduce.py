"""Reductions against the CPU: dtypes, dimensions, strides, ties, NaN, dtype=, out=, empty reductions, errors and warnings."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from comparison import COMPLEX, EVERY, FLOATS, SUMS, TOLERANCE, compare, compare_errors, compare_outcomes, layouts, make_tensor

DTYPES = [torch.bool, torch.uint8, torch.int64, *FLOATS]
SHAPES: list[tuple[int, ...]] = [(), (1,), (7,), (1000,), (3, 100), (40, 5, 6)]
#: Several dimensions in one call.
DIMS = [(0, 2), (2, 1), (0, 1, 2)]
close = partial(compare, rtol=SUMS)


@pytest.mark.parametrize("dtype", EVERY, ids=str)
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax", "amin", "any", "all", "nansum", "count_nonzero"])
def test_reductions(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch, name)
    if dtype.is_complex and name in ("amax", "amin"):
        return
    # The sign of a zero in a product of complex numbers depends on the order of the factors.
    check = partial(compare_outcomes, rtol=SUMS, signs=name != "prod" or not dtype.is_complex)
    keep = {} if name == "count_nonzero" else {"keepdim": True}
    for shape in SHAPES:
        host = make_tensor(shape, dtype, whole=1 if name in ("any", "all", "prod") else None)
        check(function, host)
        for given in layouts(host):
            for dim in [*range(-1, len(shape)), *(DIMS if len(shape) == 3 and name != "prod" else [])]:
                check(lambda x, d=dim: function(x, d, **keep), given)
    host = make_tensor((4, 5, 6), dtype)
    check(lambda x: function(x.transpose(0, 2)[1::2], 1), host)
    check(lambda x: function(x.expand(3, 4, 5, 6), 0), host[:, ::2])
    # The mean of no complex numbers is NaN in one part or in both.
    for nothing in (host[:0], host[:, :0]) if (name, dtype.is_complex) != ("mean", True) else ():
        check(function, nothing)
        for dim in (0, -1):
            check(function, nothing, dim)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_indices(name: str, dtype: torch.dtype) -> None:
    if name.startswith("arg") and dtype is torch.bool:
        return
    function = getattr(torch, name)
    for shape in ((1,), (40,), (30, 40), (3, 5000), (5000, 3), (4, 5, 6)):
        host = make_tensor(shape, dtype, whole=3)
        if dtype.is_floating_point and len(shape) == 2:
            host[shape[0] // 2, 1] = torch.nan
        compare(function, host)
        for dim in range(len(shape)):
            compare(lambda x, dim=dim: tuple(function(x, dim)) if name in {"max", "min"} else function(x, dim), host)
            compare(lambda x, dim=dim: function(x.transpose(0, -1), dim, keepdim=True), host)
    compare(lambda x: function(x.t()), make_tensor((30, 40), dtype, whole=3))


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


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
def test_moments(name: str, dtype: torch.dtype) -> None:
    function, host = getattr(torch, name), make_tensor((30, 40), dtype)
    compare(function, host, rtol=TOLERANCE)
    for correction in (0, 1, 2.5):
        for dim in (0, 1, (0, 1), -1):
            for given in (host, host.t(), host[::2, 1::3]):
                compare(lambda x, d=dim, c=correction: function(x, d, correction=c, keepdim=True), given, rtol=TOLERANCE)


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
    "nansum of integers": (lambda x: torch.nansum(x, 0), HOST.int()),
    "count_nonzero": (lambda x: torch.count_nonzero(x, (0,)), SPOILT.masked_fill(SPOILT < 0, 0)),
    "norm in doubles": (lambda x: torch.linalg.vector_norm(x, dtype=torch.float64), HOST),
    "norm of large and small": (lambda x: torch.linalg.vector_norm(x, 2, 1), torch.tensor([[1e30], [-1e-30]])),
    "norm of nothing": (torch.linalg.vector_norm, torch.empty(0, 3)),
    "sum out": (lambda x, out: torch.sum(x, 0, out=out), HOST, torch.empty(40, 2)[:, 0]),
    "sum out, resized": (lambda x, out: torch.sum(x, 0, out=out), HOST.int(), torch.empty(0, dtype=torch.int64)),
    "max out": (
        lambda x, *out: torch.max(x, 0, out=out),
        make_tensor((30, 40), torch.float32, whole=3),
        torch.empty(40, 2)[:, 1],
        torch.empty(0, dtype=torch.int64),
    ),
    "max of all out": (lambda x, out: torch.max(x, out=out), HOST, torch.empty(0)),
    "var out": (lambda x, out: torch.var(x, 1, out=out), HOST, torch.empty(0)),
    "nansum out": (lambda x, out: torch.nansum(x, 0, out=out), HOST, torch.empty(0)),
}
CALLS |= {
    f"norm of order {order}": (lambda x, order=order: torch.linalg.vector_norm(x, order, 1), HOST)
    for order in (0, 1, 2, 3, -2, torch.inf, -torch.inf)
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
