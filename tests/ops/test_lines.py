"""Operators along a dimension against the CPU: softmax, scans, layer normalisation; gradients, dtypes, strides, out=, errors."""

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float32: 1e-5, torch.float64: 1e-12}
SHAPES: list[tuple[int, ...]] = [(), (1,), (7,), (3, 1000), (1000, 3), (4, 5, 6)]

pytestmark = pytest.mark.usefixtures("strict")


def make(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return normal numbers, or small whole ones."""
    generator = torch.Generator().manual_seed(3)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    return torch.randint(-3, 4, shape, generator=generator).to(dtype)


def compare(function: Callable[[torch.Tensor], object], host: torch.Tensor, tolerance: float = 0.0) -> None:
    """Run the function on the device and on the CPU, and compare values, dtypes, shapes and strides."""
    expected, actual = function(host), function(host.to("rustdev"))
    expected = expected if isinstance(expected, tuple) else (expected,)
    actual = actual if isinstance(actual, tuple) else (actual,)
    for mine, theirs in zip(actual, expected, strict=True):
        assert mine.device.type == "rustdev"
        assert mine.stride() == theirs.stride()
        torch.testing.assert_close(mine.cpu(), theirs, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax(name: str, dtype: torch.dtype) -> None:
    function: Callable[..., torch.Tensor] = getattr(torch, name)
    for shape in SHAPES:
        for dim in range(-1, len(shape)):
            compare(lambda tensor, dim=dim: function(tensor, dim), make(shape, dtype), TOLERANCE[dtype])
    host = make((6, 40), dtype)
    compare(lambda tensor: function(tensor.t(), 0), host, TOLERANCE[dtype])
    compare(lambda tensor: function(tensor[:, ::3], 1), host, TOLERANCE[dtype])


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_gradient(name: str, dim: int) -> None:
    host = make((30, 40), torch.float32)
    results = []
    for device in ("cpu", "rustdev"):
        leaf = host.to(device, copy=True).requires_grad_()
        result = getattr(torch, name)(leaf, dim)
        result.backward(make((40, 30), torch.float32).to(device).t())
        results.append(leaf.grad.cpu())
    torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, *FLOATS, torch.complex64], ids=str)
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_sums_and_products_so_far(name: str, dtype: torch.dtype) -> None:
    function: Callable[..., torch.Tensor] = getattr(torch, name)
    tolerance = TOLERANCE.get(dtype, 1e-5 if dtype.is_complex else 0.0)
    for shape in SHAPES:
        for dim in range(-1, len(shape)):
            compare(lambda tensor, dim=dim: function(tensor, dim), make(shape, dtype), tolerance)
    host = make((6, 40), dtype)
    compare(lambda tensor: function(tensor.t(), 0), host, tolerance)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    compare(lambda tensor: function(tensor, 1, dtype=wide), host, max(tolerance, 1e-12))
    if dtype.is_floating_point:
        device = host.to("rustdev")
        getattr(device, name + "_")(1)
        torch.testing.assert_close(device.cpu(), function(host, 1), rtol=tolerance, atol=tolerance)


def test_a_long_cumsum() -> None:
    host = make((300_000,), torch.float32)
    torch.testing.assert_close(host.to("rustdev").cumsum(0).cpu(), host.double().cumsum(0).float(), rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, *FLOATS], ids=str)
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_extremes_so_far(name: str, dtype: torch.dtype) -> None:
    function: Callable[..., object] = getattr(torch, name)
    for shape in SHAPES:
        host = make(shape, dtype)
        if dtype.is_floating_point and len(shape) > 1:
            host[1, 2] = torch.nan
        for dim in range(-1, len(shape)):
            compare(lambda tensor, dim=dim: tuple(function(tensor, dim)), host)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_logcumsumexp(dtype: torch.dtype) -> None:
    for shape in SHAPES:
        for dim in range(-1, len(shape)):
            compare(lambda tensor, dim=dim: torch.logcumsumexp(tensor, dim), make(shape, dtype), TOLERANCE[dtype])
    compare(lambda tensor: torch.logcumsumexp(tensor, 0), torch.tensor([-torch.inf, -torch.inf, 1.0, torch.inf, torch.nan]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_layer_norm(dtype: torch.dtype) -> None:
    for shape, normalized in (((4, 100), (100,)), ((2, 3, 5), (3, 5)), ((7,), (7,)), ((40, 1), (1,))):
        host = make(shape, dtype)
        for given in ((None, None), (make(normalized, dtype), None), (make(normalized, dtype), make(normalized, dtype))):

            def norm(tensor: torch.Tensor, given: tuple = given, normalized: tuple = normalized) -> tuple:
                weight, bias = (None if value is None else value.to(tensor.device) for value in given)
                return torch.native_layer_norm(tensor, normalized, weight, bias, 1e-5)

            compare(norm, host, 4 * TOLERANCE[dtype])


@pytest.mark.parametrize("count", [7, 100, 1024, 16384, 40000])
def test_an_offset_costs_layer_norm_no_digits(count: int) -> None:
    assert float(functional.layer_norm(torch.full((4, count), 1000.1).to("rustdev"), (count,)).abs().max()) == 0
    values = make((4, count), torch.float32) + 1000
    mine = functional.layer_norm(values.to("rustdev"), (count,)).cpu().double()
    torch.testing.assert_close(mine, functional.layer_norm(values.double(), (count,)), rtol=0, atol=6e-5)


def test_layer_norm_gradients() -> None:
    grads = []
    for device in ("cpu", "rustdev"):
        norm = torch.nn.LayerNorm(40)
        norm.weight.data, norm.bias.data = make((40,), torch.float32), make((40,), torch.float32) + 1
        norm.to(device)
        leaf = make((300, 40), torch.float32).to(device).requires_grad_()
        norm(leaf).backward(make((300, 40), torch.float32).to(device) * 2)
        grads.append([value.grad.cpu() for value in (leaf, norm.weight, norm.bias)])
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-4)


def test_out_and_errors() -> None:
    device = torch.ones(2, 3, device="rustdev")
    target = torch.empty(3, 2, device="rustdev").t()
    assert torch.softmax(device, 1, out=target) is target
    torch.testing.assert_close(target.cpu(), torch.full((2, 3), 1 / 3))
    assert torch.cumsum(device, 1, out=target) is target
    torch.testing.assert_close(target.cpu(), torch.ones(2, 3).cumsum(1))
    for name in ("softmax", "cumsum", "cummax", "logcumsumexp"):
        with pytest.raises(IndexError):
            getattr(torch, name)(device, 2)
    with pytest.raises(RuntimeError, match="normalized_shape"):
        functional.layer_norm(device, (2,))
    assert torch.softmax(torch.empty(0, 3, device="rustdev"), 1).shape == (0, 3)
