"""Operators along a dimension against the CPU: softmax, scans, layer normalization, losses; sizes, out=, errors."""

import functools
import itertools

import pytest
import torch
from comparison import FLOATS, SUMS, TOLERANCE, assert_same, compare, compare_errors, compare_gradients, make_tensor
from torch.nn import functional

close = functools.partial(compare, rtol=TOLERANCE)


def test_a_long_cumsum() -> None:
    host = make_tensor((300_000,), torch.float32)
    assert_same(host.to("rustdev").cumsum(0), host.double().cumsum(0).float(), rtol=1e-6, atol=1e-4)


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


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_total_weights(reduction: int) -> None:
    weight = torch.tensor([0.5, 1.0, 2.0])
    rows, row = (torch.randn(4, 3), torch.tensor([0, 2, 1, 1])), (torch.randn(3), torch.tensor(2))
    for ignored, given in itertools.product((-100, 1, 2), (rows, row, (rows[0], rows[1].to(torch.uint8)))):
        compare(torch.ops.aten.nll_loss_forward, *given, weight, reduction, ignored, rtol=SUMS)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 1, 2)])
def test_nothing_but_ignored_targets(shape: tuple[int, ...]) -> None:
    target = torch.ones(2, *shape[2:]).long()
    compare_gradients(lambda values: functional.nll_loss(values, target.to(values.device), ignore_index=1), torch.ones(shape))


def test_errors_of_losses() -> None:
    values, target = torch.ones(2, 3), torch.ones(2).long()
    compare_errors(functional.nll_loss, values, torch.ones(3).long())
    compare_errors(functional.nll_loss, values, target, torch.ones(2))
    functional.nll_loss(values.to("rustdev"), torch.tensor([0, 3]).to("rustdev"))
    with pytest.raises(torch.AcceleratorError, match=r"Target 3 is out of bounds"):
        torch.rustdev.synchronize()
