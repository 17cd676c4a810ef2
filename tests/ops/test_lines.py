"""Operators along a dimension against the CPU: softmax, scans, layer normalization; gradients, dtypes, strides, out=, errors."""

import pytest
import torch
from comparison import TOLERANCE, assert_same, compare, compare_errors, compare_gradients, make_tensor
from torch.nn import functional

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SHAPES: list[tuple[int, ...]] = [(), (1,), (7,), (3, 1000), (1000, 3), (4, 5, 6)]

pytestmark = pytest.mark.usefixtures("strict")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch, name)
    for shape in SHAPES:
        for dim in range(-1, len(shape)):
            compare(lambda tensor, dim=dim: function(tensor, dim), make_tensor(shape, dtype), rtol=TOLERANCE)
    host = make_tensor((6, 40), dtype)
    compare(lambda tensor: function(tensor.t(), 0), host, rtol=TOLERANCE)
    compare(lambda tensor: function(tensor[:, ::3], 1), host, rtol=TOLERANCE)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_gradient(name: str, dim: int) -> None:
    compare_gradients(lambda a: getattr(torch, name)(a, dim).t(), make_tensor((30, 40), torch.float32), rtol=TOLERANCE)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, *FLOATS, torch.complex64], ids=str)
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_sums_and_products_so_far(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch, name)
    for shape in SHAPES:
        for dim in range(-1, len(shape)):
            compare(lambda tensor, dim=dim: function(tensor, dim), make_tensor(shape, dtype), rtol=TOLERANCE)
    host = make_tensor((6, 40), dtype)
    compare(lambda tensor: function(tensor.t(), 0), host, rtol=TOLERANCE)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    compare(lambda tensor: function(tensor, 1, dtype=wide), host, rtol=TOLERANCE)
    if dtype.is_floating_point:
        compare(lambda tensor: getattr(tensor, name + "_")(1), host, rtol=TOLERANCE)


def test_a_long_cumsum() -> None:
    host = make_tensor((300_000,), torch.float32)
    assert_same(host.to("rustdev").cumsum(0), host.double().cumsum(0).float(), rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, *FLOATS], ids=str)
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_extremes_so_far(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch, name)
    for shape in SHAPES:
        host = make_tensor(shape, dtype)
        if dtype.is_floating_point and len(shape) > 1:
            host[1, 2] = torch.nan
        for dim in range(-1, len(shape)):
            compare(lambda tensor, dim=dim: tuple(function(tensor, dim)), host)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_logcumsumexp(dtype: torch.dtype) -> None:
    for shape in SHAPES:
        for dim in range(-1, len(shape)):
            compare(lambda tensor, dim=dim: torch.logcumsumexp(tensor, dim), make_tensor(shape, dtype), rtol=TOLERANCE)
    compare(lambda tensor: torch.logcumsumexp(tensor, 0), torch.tensor([-torch.inf, -torch.inf, 1.0, torch.inf, torch.nan]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_layer_norm(dtype: torch.dtype) -> None:
    for shape, normalized in (((4, 100), (100,)), ((2, 3, 5), (3, 5)), ((7,), (7,)), ((40, 1), (1,))):
        host = make_tensor(shape, dtype)
        for given in (
            (None, None),
            (make_tensor(normalized, dtype), None),
            (make_tensor(normalized, dtype), make_tensor(normalized, dtype)),
        ):

            def norm(tensor: torch.Tensor, given: tuple = given, normalized: tuple = normalized) -> tuple:
                weight, bias = (None if value is None else value.to(tensor.device) for value in given)
                return torch.native_layer_norm(tensor, normalized, weight, bias, 1e-5)

            compare(norm, host, rtol=4 * TOLERANCE[dtype])


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
    compare(lambda a, out: torch.softmax(a, 1, out=out), host, target, rtol=TOLERANCE)
    compare(lambda a, out: torch.cumsum(a, 1, out=out), host, target)
    for name in ("softmax", "cumsum", "cummax", "logcumsumexp"):
        compare_errors(lambda a, name=name: getattr(torch, name)(a, 2), host)
    compare_errors(lambda a: functional.layer_norm(a, (2,)), host)
    assert torch.softmax(torch.empty(0, 3, device="rustdev"), 1).shape == (0, 3)
