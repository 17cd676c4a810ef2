"""Operators along a dimension against the CPU: softmax, scans, layer normalization; gradients, dtypes, strides, out=, errors."""

import functools

import pytest
import torch
from comparison import FLOATS, TOLERANCE, assert_same, compare, compare_errors, compare_gradients, layouts, make_tensor
from torch.nn import functional

SHAPES: list[tuple[int, ...]] = [(), (1,), (7,), (3, 1000), (1000, 3), (4, 5, 6)]
close = functools.partial(compare, rtol=TOLERANCE)


def check(name: str, dtype: torch.dtype) -> None:
    """Compare an operator along each dimension of tensors of each shape and layout, the last of which has NaN among its numbers."""
    hosts = [make_tensor(shape, dtype) for shape in SHAPES] + list(layouts(make_tensor((6, 40), dtype)))
    if dtype.is_floating_point:
        hosts[-1][1, 2] = torch.nan
    for host in hosts:
        for dim in range(-1, host.dim()):
            close(lambda tensor, dim=dim: getattr(torch, name)(tensor, dim), host)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax(name: str, dtype: torch.dtype) -> None:
    check(name, dtype)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_gradient(name: str, dim: int) -> None:
    compare_gradients(lambda a: getattr(torch, name)(a, dim).t(), make_tensor((30, 40), torch.float32), rtol=TOLERANCE)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, *FLOATS, torch.complex64], ids=str)
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_sums_and_products_so_far(name: str, dtype: torch.dtype) -> None:
    check(name, dtype)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    host = make_tensor((6, 40), dtype)
    close(lambda tensor: getattr(torch, name)(tensor, 1, dtype=wide), host)
    if dtype.is_floating_point:
        close(lambda tensor: getattr(tensor, name + "_")(1), host)


def test_a_long_cumsum() -> None:
    host = make_tensor((300_000,), torch.float32)
    assert_same(host.to("rustdev").cumsum(0), host.double().cumsum(0).float(), rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, *FLOATS], ids=str)
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_extremes_so_far(name: str, dtype: torch.dtype) -> None:
    check(name, dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_logcumsumexp(dtype: torch.dtype) -> None:
    check("logcumsumexp", dtype)
    compare(lambda tensor: torch.logcumsumexp(tensor, 0), torch.tensor([-torch.inf, -torch.inf, 1.0, torch.inf, torch.nan]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_layer_norm(dtype: torch.dtype) -> None:
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((4, 100), (100,)), ((2, 3, 5), (3, 5)), ((7,), (7,)), ((40, 1), (1,))]
    for shape, normalized in shapes:
        values, weight = make_tensor(shape, dtype), make_tensor(normalized, dtype)
        for given in ((None, None), (weight, None), (weight, weight)):
            compare(torch.native_layer_norm, values, list(normalized), *given, 1e-5, rtol=4 * TOLERANCE[dtype])


@pytest.mark.parametrize("count", [7, 100, 1024, 16384, 40000])
def test_an_offset_costs_layer_norm_no_digits(count: int) -> None:
    assert float(functional.layer_norm(torch.full((4, count), 1000.1).to("rustdev"), (count,)).abs().max()) == 0
    values = make_tensor((4, count), torch.float32) + 1000
    mine = functional.layer_norm(values.to("rustdev"), (count,)).cpu().double()
    torch.testing.assert_close(mine, functional.layer_norm(values.double(), (count,)), rtol=0, atol=6e-5)


def test_layer_norm_gradients() -> None:
    norm = torch.nn.LayerNorm(40)
    norm.weight.data, norm.bias.data = make_tensor((40,), torch.float32), make_tensor((40,), torch.float32, seed=1) + 1
    compare_gradients(norm, make_tensor((300, 40), torch.float32), rtol=1e-5)


def test_out_and_errors() -> None:
    host, target = torch.ones(2, 3), torch.empty(3, 2).t()
    close(lambda a, out: torch.softmax(a, 1, out=out), host, target)
    compare(lambda a, out: torch.cumsum(a, 1, out=out), host, target)
    compare(torch.softmax, torch.empty(0, 3), 1)
    for name in ("softmax", "cumsum", "cummax", "logcumsumexp"):
        compare_errors(getattr(torch, name), host, 2)
    compare_errors(functional.layer_norm, host, (2,))
