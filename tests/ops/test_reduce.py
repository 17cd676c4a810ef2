"""Reductions with a Rust kernel against the CPU: dtypes, dimensions, strides, keepdim, dtype=, out=, empty reductions, errors."""

import functools

import pytest
import torch
from comparison import TOLERANCE, compare, compare_errors, make_tensor

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]

#: Sums of up to some thousand numbers.
SUMS = TOLERANCE | {torch.float32: 1e-5, torch.complex64: 1e-5}
close = functools.partial(compare, rtol=SUMS)

pytestmark = pytest.mark.usefixtures("strict")


@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS, *FLOATS, *COMPLEX], ids=str)
def test_sum(dtype: torch.dtype) -> None:
    for shape in ((), (1,), (7,), (1000,), (3, 100), (40, 5, 6)):
        host = make_tensor(shape, dtype)
        close(torch.sum, host)
        for dim in range(len(shape)):
            close(lambda tensor, dim=dim: tensor.sum(dim), host)
            close(lambda tensor, dim=dim: tensor.sum(dim, keepdim=True), host)
    host = make_tensor((4, 5, 6), dtype)
    close(lambda tensor: tensor.sum((0, 2)), host)
    close(lambda tensor: tensor.transpose(0, 2)[1::2].sum(1), host)
    close(lambda tensor: tensor.expand(3, 4, 5, 6).sum(0), host)


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX, ids=str)
def test_mean(dtype: torch.dtype) -> None:
    host = make_tensor((30, 40), dtype)
    close(torch.mean, host)
    close(lambda tensor: tensor.mean(0), host)
    close(lambda tensor: tensor.mean((1,), keepdim=True), host)


@pytest.mark.parametrize("name", ["amax", "amin"])
@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS, *FLOATS], ids=str)
def test_extremes(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch, name)
    host = make_tensor((30, 40), dtype)
    close(function, host)
    close(lambda tensor: function(tensor, 0), host)
    close(lambda tensor: function(tensor, (1,), keepdim=True), host)
    if dtype.is_floating_point:
        host[3, 5] = torch.nan
        close(lambda tensor: function(tensor, 1), host)


@pytest.mark.parametrize("name", ["any", "all"])
@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS, *FLOATS, *COMPLEX], ids=str)
def test_truth(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch, name)
    host = make_tensor((3, 20), dtype, whole=1)
    close(lambda tensor: function(tensor, 0), host)
    close(lambda tensor: function(tensor, (0, 1), keepdim=True), host)


@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS, *FLOATS, *COMPLEX], ids=str)
def test_prod(dtype: torch.dtype) -> None:
    host = make_tensor((5, 6), dtype)
    close(lambda tensor: tensor.prod(0), host)
    close(lambda tensor: tensor.prod(1, keepdim=True), host)


def test_dtype_argument() -> None:
    close(lambda tensor: tensor.sum(0, dtype=torch.float64), make_tensor((50, 3), torch.float16))
    close(lambda tensor: tensor.sum(1, dtype=torch.int32), make_tensor((5, 30), torch.int64))
    close(lambda tensor: tensor.mean(dtype=torch.float32), make_tensor((5, 30), torch.int64))
    close(lambda tensor: tensor.prod(0, dtype=torch.float32), make_tensor((3, 4), torch.int32))


def test_dimensions_around_those_that_are_kept() -> None:
    tensor = torch.randn(2, 3, 4, 5, 6)
    for dims in ((0, 2), (0, 1), (0, 1, 3), (1, 3), (2, 3, 4)):
        compare(lambda x, dims=dims: x.amax(dims), tensor)
        compare(lambda x, dims=dims: x.sum(dims), tensor, rtol=1e-5, atol=1e-5)


def test_out() -> None:
    host = make_tensor((6, 7), torch.float32)
    compare(lambda tensor, out: torch.sum(tensor, 0, out=out), host, torch.empty(7, 2)[:, 0], rtol=1e-6)


def test_nothing_to_reduce() -> None:
    for shape in ((0,), (0, 3), (3, 0)):
        host = torch.empty(shape)
        close(torch.sum, host)
        close(torch.mean, host)
        close(lambda tensor: tensor.sum(-1), host)
        close(lambda tensor: tensor.prod(0), host)


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
        exact = host.double().sum(dims)
        torch.testing.assert_close(device.sum(dims).cpu().double(), exact, rtol=1e-6, atol=1e-3)


def test_errors_are_those_of_the_cpu() -> None:
    host = torch.ones(2, 3)
    compare_errors(lambda tensor: tensor.sum(2), host)
    compare_errors(lambda tensor: tensor.sum((0, 0)), host)
    for function in (torch.mean, torch.var, torch.std, torch.var_mean, torch.std_mean):
        compare_errors(function, host.long())
    compare_errors(lambda tensor: tensor.amax(0), torch.empty(0, 3))
