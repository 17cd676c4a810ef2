"""Minimum, maximum and variance, against the CPU: ties, NaN, strides, keepdim, out=, nothing to reduce, errors and warnings."""

from collections.abc import Callable

import pytest
import torch

DTYPES = [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
FLOATS = DTYPES[3:]

pytestmark = pytest.mark.usefixtures("strict")


def make(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return small whole numbers: many of them are equal."""
    return torch.randint(0, 5, shape, generator=torch.Generator().manual_seed(1)).to(dtype)


def compare(function: Callable[[torch.Tensor], object], host: torch.Tensor, tolerance: float = 0.0) -> None:
    """Run the function on the device and on the CPU, and compare values, dtypes, shapes and strides."""
    expected, actual = function(host), function(host.to("rustdev"))
    expected = expected if isinstance(expected, tuple) else (expected,)
    actual = actual if isinstance(actual, tuple) else (actual,)
    for mine, theirs in zip(actual, expected, strict=True):
        assert mine.device.type == "rustdev"
        assert mine.stride() == theirs.stride()
        torch.testing.assert_close(mine.cpu(), theirs, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_indices(name: str, dtype: torch.dtype) -> None:
    if name.startswith("arg") and dtype is torch.bool:
        return
    function: Callable[..., object] = getattr(torch, name)
    for shape in ((1,), (40,), (30, 40), (3, 5000), (5000, 3), (4, 5, 6)):
        host = make(shape, dtype)
        if dtype.is_floating_point and len(shape) == 2:
            host[shape[0] // 2, 1] = torch.nan
        compare(function, host)
        for dim in range(len(shape)):
            compare(lambda tensor, dim=dim: tuple(function(tensor, dim)) if name in {"max", "min"} else function(tensor, dim), host)
            compare(lambda tensor, dim=dim: function(tensor.transpose(0, -1)[::1], dim, keepdim=True), host)
    compare(lambda tensor: function(tensor.t()), make((30, 40), dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_aminmax(dtype: torch.dtype) -> None:
    host = make((30, 40), dtype)
    compare(lambda tensor: tuple(torch.aminmax(tensor)), host)
    compare(lambda tensor: tuple(torch.aminmax(tensor, dim=1, keepdim=True)), host)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
def test_moments(name: str, dtype: torch.dtype) -> None:
    function: Callable[..., object] = getattr(torch, name)
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float32: 1e-6}.get(dtype, 1e-12)
    host = torch.randn(30, 40, generator=torch.Generator().manual_seed(2)).to(dtype)
    compare(function, host, tolerance)
    for correction in (0, 1, 2.5):
        for dim in (0, 1, (0, 1), -1):
            for source in (host, host.t(), host[::2, 1::3]):
                compare(lambda tensor, d=dim, c=correction: function(tensor, d, correction=c, keepdim=True), source, tolerance)


def test_nansum_counts_and_norms() -> None:
    host = torch.randn(30, 40)
    host[3] = torch.nan
    host[:, 4] = 0
    compare(torch.nansum, host, 1e-5)
    compare(lambda tensor: torch.nansum(tensor, 1, keepdim=True, dtype=torch.float64), host, 1e-5)
    compare(lambda tensor: torch.nansum(tensor.int(), 0), torch.ones(3, 4))
    compare(torch.count_nonzero, host)
    compare(lambda tensor: torch.count_nonzero(tensor, (0,)), host)
    host = torch.randn(30, 40)
    for order in (0, 1, 2, 3, -2, float("inf"), -float("inf")):
        compare(lambda tensor, p=order: torch.linalg.vector_norm(tensor, p, 1), host, 1e-5)
    compare(lambda tensor: torch.linalg.vector_norm(tensor, dtype=torch.float64), host, 1e-5)
    compare(lambda tensor: torch.linalg.vector_norm(tensor, 2, 1), torch.tensor([[1e30], [-1e-30]]))


def test_out() -> None:
    host = make((30, 40), torch.float32)
    device = host.to("rustdev")
    values, indices = torch.empty(40, 2, device="rustdev")[:, 1], torch.empty(0, dtype=torch.int64, device="rustdev")
    torch.max(device, 0, out=(values, indices))
    expected = host.max(0)
    torch.testing.assert_close((values.cpu(), indices.cpu()), tuple(expected))
    for function in (
        lambda tensor, **out: torch.var(tensor, 1, **out),
        torch.max,
        lambda tensor, **out: torch.nansum(tensor, 0, **out),
    ):
        target = torch.empty(0, device="rustdev")
        assert function(device, out=target) is target
        torch.testing.assert_close(target.cpu(), function(host))


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
    device = torch.ones(2, 3, device="rustdev")
    with pytest.raises(RuntimeError, match="numel"):
        torch.empty(0, device="rustdev").max()
    with pytest.raises(IndexError):
        device.max(2)
    with pytest.raises(IndexError):
        torch.empty(0, 3, device="rustdev").argmax(0)
    with pytest.raises(RuntimeError, match="floating point"):
        device.int().var()
    with pytest.raises(RuntimeError, match="appears multiple times"):
        device.var((0, 0))
    with pytest.raises(IndexError):
        device.var(5)
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert device[:1, :1].var().cpu().isnan().item()
