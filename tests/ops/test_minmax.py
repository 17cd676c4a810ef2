"""Minimum, maximum and variance against the CPU: ties, NaN, strides, keepdim, out=, empty reductions, errors and warnings."""

import pytest
import torch
from comparison import TOLERANCE, compare, compare_errors, make_tensor

DTYPES = [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
FLOATS = DTYPES[3:]

pytestmark = pytest.mark.usefixtures("strict")


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
            compare(lambda tensor, dim=dim: tuple(function(tensor, dim)) if name in {"max", "min"} else function(tensor, dim), host)
            compare(lambda tensor, dim=dim: function(tensor.transpose(0, -1)[::1], dim, keepdim=True), host)
    compare(lambda tensor: function(tensor.t()), make_tensor((30, 40), dtype, whole=3))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_aminmax(dtype: torch.dtype) -> None:
    host = make_tensor((30, 40), dtype, whole=3)
    compare(lambda tensor: tuple(torch.aminmax(tensor)), host)
    compare(lambda tensor: tuple(torch.aminmax(tensor, dim=1, keepdim=True)), host)
    if dtype.is_floating_point:
        host[3, 5], host[20] = torch.nan, torch.nan
        compare(lambda tensor: tuple(torch.aminmax(tensor)), host)
        for dim in (0, 1):
            compare(lambda tensor, dim=dim: tuple(torch.aminmax(tensor, dim=dim)), host)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
def test_moments(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch, name)
    host = make_tensor((30, 40), dtype)
    compare(function, host, rtol=TOLERANCE)
    for correction in (0, 1, 2.5):
        for dim in (0, 1, (0, 1), -1):
            for source in (host, host.t(), host[::2, 1::3]):
                compare(lambda tensor, d=dim, c=correction: function(tensor, d, correction=c, keepdim=True), source, rtol=TOLERANCE)


def test_nansum_counts_and_norms() -> None:
    host = torch.randn(30, 40)
    host[3] = torch.nan
    host[:, 4] = 0
    compare(torch.nansum, host, rtol=TOLERANCE)
    compare(lambda tensor: torch.nansum(tensor, 1, keepdim=True, dtype=torch.float64), host, rtol=TOLERANCE)
    compare(lambda tensor: torch.nansum(tensor.int(), 0), torch.ones(3, 4))
    compare(torch.count_nonzero, host)
    compare(lambda tensor: torch.count_nonzero(tensor, (0,)), host)
    host = torch.randn(30, 40)
    for order in (0, 1, 2, 3, -2, float("inf"), -float("inf")):
        compare(lambda tensor, p=order: torch.linalg.vector_norm(tensor, p, 1), host, rtol=TOLERANCE)
    compare(lambda tensor: torch.linalg.vector_norm(tensor, dtype=torch.float64), host, rtol=TOLERANCE)
    compare(lambda tensor: torch.linalg.vector_norm(tensor, 2, 1), torch.tensor([[1e30], [-1e-30]]))


def test_out() -> None:
    host = make_tensor((30, 40), torch.float32, whole=3)
    values, indices = torch.empty(40, 2)[:, 1], torch.empty(0, dtype=torch.int64)
    compare(lambda tensor, *out: torch.max(tensor, 0, out=out), host, values, indices)
    for function in (
        lambda tensor, **out: torch.var(tensor, 1, **out),
        torch.max,
        lambda tensor, **out: torch.nansum(tensor, 0, **out),
    ):
        compare(lambda tensor, out, function=function: function(tensor, out=out), host, torch.empty(0), rtol=TOLERANCE)


def test_nothing_to_reduce() -> None:
    for shape in ((0,), (0, 3), (3, 0)):
        host = torch.empty(shape)
        compare(torch.nansum, host)
        compare(torch.count_nonzero, host)
        compare(torch.linalg.vector_norm, host)
        with pytest.warns(UserWarning, match="degrees of freedom"):
            compare(torch.var, host)
    with pytest.warns(UserWarning, match="degrees of freedom"):
        compare(lambda tensor: torch.var(tensor, 0), torch.empty(3, 0))


def test_errors_and_warnings_are_those_of_the_cpu() -> None:
    host = torch.ones(2, 3)
    compare_errors(torch.max, torch.empty(0))
    compare_errors(lambda tensor: tensor.max(2), host)
    compare_errors(lambda tensor: tensor.argmax(0), torch.empty(0, 3))
    with pytest.raises(RuntimeError, match="floating point"):
        host.to("rustdev").int().var()
    compare_errors(lambda tensor: tensor.var((0, 0)), host)
    compare_errors(lambda tensor: tensor.var(5), host)
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert host[:1, :1].to("rustdev").var().cpu().isnan().item()
