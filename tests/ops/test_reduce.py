"""Reductions with a Rust kernel against the CPU: dtypes, dimensions, strides, keepdim, dtype=, out=, nothing to reduce, errors."""

from collections.abc import Callable

import pytest
import torch

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]

pytestmark = pytest.mark.usefixtures("strict")


def make(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return small numbers."""
    generator = torch.Generator().manual_seed(0)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=torch.float32).to(dtype)
    return torch.randint(0, 3, shape, generator=generator).to(dtype)


def same(device: torch.Tensor, expected: torch.Tensor) -> None:
    """Compare values, dtype, shape and strides."""
    assert device.device.type == "rustdev"
    assert device.dtype == expected.dtype
    assert device.stride() == expected.stride()
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float32: 1e-5, torch.complex64: 1e-5}.get(expected.dtype, 1e-12)
    torch.testing.assert_close(device.cpu(), expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def compare(function: Callable[[torch.Tensor], torch.Tensor], host: torch.Tensor) -> None:
    """Run the function on the device and on the CPU."""
    same(function(host.to("rustdev")), function(host))


@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS, *FLOATS, *COMPLEX], ids=str)
def test_sum(dtype: torch.dtype) -> None:
    for shape in ((), (1,), (7,), (1000,), (3, 100), (40, 5, 6)):
        host = make(shape, dtype)
        compare(torch.sum, host)
        for dim in range(len(shape)):
            compare(lambda tensor, dim=dim: tensor.sum(dim), host)
            compare(lambda tensor, dim=dim: tensor.sum(dim, keepdim=True), host)
    host = make((4, 5, 6), dtype)
    compare(lambda tensor: tensor.sum((0, 2)), host)
    compare(lambda tensor: tensor.transpose(0, 2)[1::2].sum(1), host)
    compare(lambda tensor: tensor.expand(3, 4, 5, 6).sum(0), host)


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX, ids=str)
def test_mean(dtype: torch.dtype) -> None:
    host = make((30, 40), dtype)
    compare(torch.mean, host)
    compare(lambda tensor: tensor.mean(0), host)
    compare(lambda tensor: tensor.mean((1,), keepdim=True), host)


@pytest.mark.parametrize("name", ["amax", "amin"])
@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS, *FLOATS], ids=str)
def test_extremes(name: str, dtype: torch.dtype) -> None:
    function: Callable[..., torch.Tensor] = getattr(torch, name)
    host = make((30, 40), dtype)
    compare(function, host)
    compare(lambda tensor: function(tensor, 0), host)
    compare(lambda tensor: function(tensor, (1,), keepdim=True), host)
    if dtype.is_floating_point:
        host[3, 5] = torch.nan
        compare(lambda tensor: function(tensor, 1), host)


@pytest.mark.parametrize("name", ["any", "all"])
@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS, *FLOATS, *COMPLEX], ids=str)
def test_truth(name: str, dtype: torch.dtype) -> None:
    function: Callable[..., torch.Tensor] = getattr(torch, name)
    host = make((3, 20), dtype)
    compare(lambda tensor: function(tensor, 0), host)
    compare(lambda tensor: function(tensor, (0, 1), keepdim=True), host)


@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS, *FLOATS, *COMPLEX], ids=str)
def test_prod(dtype: torch.dtype) -> None:
    host = make((5, 6), dtype)
    compare(lambda tensor: tensor.prod(0), host)
    compare(lambda tensor: tensor.prod(1, keepdim=True), host)


def test_dtype_argument() -> None:
    compare(lambda tensor: tensor.sum(0, dtype=torch.float64), make((50, 3), torch.float16))
    compare(lambda tensor: tensor.sum(1, dtype=torch.int32), make((5, 30), torch.int64))
    compare(lambda tensor: tensor.mean(dtype=torch.float32), make((5, 30), torch.int64))
    compare(lambda tensor: tensor.prod(0, dtype=torch.float32), make((3, 4), torch.int32))


def test_out() -> None:
    host = make((6, 7), torch.float32)
    target = torch.empty(7, 2, device="rustdev")[:, 0]
    assert torch.sum(host.to("rustdev"), 0, out=target) is target
    torch.testing.assert_close(target.cpu(), host.sum(0))


def test_nothing_to_reduce() -> None:
    for shape in ((0,), (0, 3), (3, 0)):
        host = torch.empty(shape)
        compare(torch.sum, host)
        compare(torch.mean, host)
        compare(lambda tensor: tensor.sum(-1), host)
        compare(lambda tensor: tensor.prod(0), host)


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
    host = make((1000, 1500), torch.float32)
    device = host.to("rustdev")
    for dims in ((0,), (1,), (0, 1)):
        exact = host.double().sum(dims)
        torch.testing.assert_close(device.sum(dims).cpu().double(), exact, rtol=1e-6, atol=1e-3)


def test_errors_are_those_of_the_cpu() -> None:
    device = torch.ones(2, 3, device="rustdev")
    with pytest.raises(IndexError, match="Dimension out of range"):
        device.sum(2)
    with pytest.raises(RuntimeError, match="appears multiple times"):
        device.sum((0, 0))
    with pytest.raises(RuntimeError, match="mean"):
        device.long().mean()
    with pytest.raises((IndexError, RuntimeError), match="amax"):
        torch.empty(0, 3, device="rustdev").amax(0)
