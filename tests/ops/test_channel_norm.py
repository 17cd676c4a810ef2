"""Batch and group normalization and their gradients, against the CPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from comparison import FLOATS, assert_any_threads, assert_same, compare, compare_errors, copied, layouts
from torch.nn import functional

aten = torch.ops.aten
# The samples' dtype and that of the parameters: float32 parameters go with narrower samples too.
PARAMETERS = [(dtype, dtype) for dtype in FLOATS] + [(torch.float16, torch.float32), (torch.bfloat16, torch.float32)]
TOLERANCE = {torch.float16: 6e-3, torch.bfloat16: 5e-2, torch.float32: 2e-5, torch.float64: 1e-11}
SHAPES = [(8, 3), (4, 5, 7), (2, 3, 8, 9), (3, 40, 5, 5), (2, 4, 3, 3, 3), (2, 6, 100, 50), (700, 2, 2, 2)]
ALL = [True, True, True]


def random(shape: tuple[int, ...], seed: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return values around 1."""
    return (torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 1).to(dtype)


def hold(function: Callable[..., Any], *given: Any, tolerance: float, sums: bool = False) -> Any:
    """Compare a call's results, and what it leaves of its arguments; absolutely by the greatest if they are sums of samples.

    Returns:
        The CPU's results.
    """
    mine, theirs = copied(given), copied(given, "cpu")
    found, expected = list(function(*mine)), list(function(*theirs))
    results = [it for it in expected if isinstance(it, torch.Tensor)]
    scale = max(1.0, *(float(it.abs().max()) for it in results)) if sums and results else 1.0
    # Positions have gradients of their own, parameters sums.
    for one, other in zip(found + list(mine), expected + list(theirs), strict=True):
        assert_same(one, other, rtol=tolerance, atol=tolerance * scale, signs=False)
    return expected


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("dtype", "parameter"), PARAMETERS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_batch_norm(shape: tuple[int, ...], dtype: torch.dtype, parameter: torch.dtype, training: bool) -> None:
    weight, bias, mean, var = (random((shape[1],), seed, parameter) for seed in (1, 2, 3, 4))
    var = var.abs() + 0.5
    for values in layouts(random(shape, 0, dtype)):
        for affine, running in [(True, True), (False, True), (True, False)]:
            if not (running or training):
                continue
            given = [values, *((weight, bias) if affine else (None, None)), *((mean, var) if running else (None, None))]
            saved = hold(torch.native_batch_norm, *given, training, 0.3, 1e-3, tolerance=TOLERANCE[dtype])[1:]
            if affine or parameter == dtype:
                arguments = (random(shape, 5, dtype), values, given[1], *given[3:], *saved, training, 1e-3, ALL)
                hold(aten.native_batch_norm_backward, *arguments, tolerance=2 * TOLERANCE[dtype], sums=True)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(2, 4), (2, 6, 7), (3, 8, 5, 9), (1, 4, 70, 80), (64, 12, 9, 9)], ids=str)
def test_group_norm(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    samples, channels, *size = shape
    values, grad, tolerance = random(shape, 0, dtype), random(shape, 1, dtype), TOLERANCE[dtype]
    for groups in {1, 2, channels // 4 or 1, channels}:
        options = (samples, channels, torch.Size(size).numel(), groups)
        for affine in (True, False):
            weight, bias = (random((channels,), 2, dtype), random((channels,), 3, dtype)) if affine else (None, None)
            saved = hold(aten.native_group_norm, values, weight, bias, *options, 1e-3, tolerance=tolerance)[1:]
            for mask in ([True, affine, affine], [False, affine, False]):
                arguments = (grad, values, *saved, weight, *options, mask)
                hold(aten.native_group_norm_backward, *arguments, tolerance=tolerance, sums=True)


@pytest.mark.parametrize(
    "shape", [(1, 2, 512, 512), (4, 2, 224, 224), (32, 4, 28, 28), (5000, 40), (64, 6, 3), (3, 7, 4, 4)], ids=str
)
def test_an_offset_costs_no_digits(shape: tuple[int, ...]) -> None:
    def norms(values: torch.Tensor) -> list[torch.Tensor]:
        return [functional.batch_norm(values, None, None, training=True), functional.group_norm(values.contiguous(), 1)]

    for flat, values in zip(layouts(torch.full(shape, 1000.1)), layouts(random(shape, 0) + 1000), strict=True):
        assert all(float(result.abs().max()) == 0 for result in norms(flat.to("rustdev")))
        for actual, expected in zip(norms(values.to("rustdev")), norms(values.double()), strict=True):
            torch.testing.assert_close(actual.cpu().double(), expected, rtol=0, atol=6e-5)


@pytest.mark.parametrize("shape", [(3, 2, 100, 90), (65, 24, 3), (700, 37)], ids=str)
def test_the_same_bits_for_any_number_of_threads(shape: tuple[int, ...]) -> None:
    def run() -> list[torch.Tensor | None]:
        values = (random(shape, 0) * 3).to("rustdev").requires_grad_()
        scale = torch.ones(shape[1], device="rustdev", requires_grad=True)
        for norm in (functional.batch_norm(values, None, None, scale, training=True), functional.group_norm(values, 1, scale)):
            norm.backward(norm.detach().sin())
        return [values.grad, scale.grad]

    assert_any_threads(run)


@pytest.mark.parametrize("weight", [None, torch.ones(3)])
def test_parameters_of_another_dtype_than_the_gradients(weight: torch.Tensor | None) -> None:
    values, mean, var = random((4, 3, 5), 0, torch.bfloat16), torch.zeros(3), torch.ones(3)
    compare(aten.native_batch_norm_backward, values, values, weight, mean, var, mean, var, True, 1e-5, ALL, rtol=2e-2)


def test_parameters_of_the_wrong_size_are_refused() -> None:
    values, three, two = (torch.ones(shape, device="rustdev") for shape in ((4, 3, 5), (3,), (2,)))
    for given in ([two, None, None, None], [None, two, None, None], [None, None, two, three], [None, None, three, two]):
        with pytest.raises(RuntimeError, match="a value for each of 3 channels, got 2"):
            torch.native_batch_norm(values, *given, True, 0.1, 1e-5)
    with pytest.raises(RuntimeError, match="expected running statistics"):
        torch.native_batch_norm(values, None, None, None, None, False, 0.1, 1e-5)
    for grad, weight, saved, text in (
        (values, three, None, "expected saved statistics"),
        (values[:2], three, three, "expected a gradient of sizes"),
        (values, two, three, "a value for each of 3 channels, got 2"),
    ):
        with pytest.raises(RuntimeError, match=text):
            aten.native_batch_norm_backward(grad, values, weight, three, three, saved, saved, True, 1e-5, ALL)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: functional.batch_norm(x, None, None, x.new_ones(3), training=True),
        lambda x: functional.group_norm(x, 3),
        lambda x: torch.native_batch_norm(x, x.new_ones(4).double(), None, None, None, True, 0.1, 1e-5),
        *(
            lambda x, dtype=dtype: torch.native_group_norm(x.to(dtype), None, None, 2, 4, 3, 2, 1e-5)
            for dtype in (torch.int64, torch.complex64)
        ),
        lambda x: aten.native_group_norm_backward(
            x.long(), x.long(), x[:, :2, 0].long(), x[:, :2, 0].long(), None, 2, 4, 3, 2, [True, False, False]
        ),
    ],
)
def test_errors(call: Callable[[torch.Tensor], object]) -> None:
    compare_errors(call, torch.ones(2, 4, 3), text=False)


def test_names_of_batch_norm() -> None:
    def run(values: torch.Tensor, scale: torch.Tensor, both: torch.Tensor) -> list[Any]:
        mean, var = both[:, 0], both[:, 1]  # with gaps
        results = [*torch._native_batch_norm_legit(values, scale, None, mean, var, True, 0.1, 1e-5)]
        results += torch._native_batch_norm_legit(values, scale, None, True, 0.1, 1e-5)
        updated = torch.ops.aten._batch_norm_with_update(values, scale, None, mean, var, 0.1, 1e-5)
        results += [*updated, *torch.ops.aten._batch_norm_no_update(values, scale, None, mean, var, 0.1, 1e-5)]
        arguments = (mean, var, updated[1], updated[2], True, 1e-5, [True, True, False], updated[3])
        return [*results, *torch.ops.aten.batch_norm_backward(values, values, scale, *arguments)]

    compare(run, random((4, 3, 5), 0), random((3,), 1), torch.ones(3, 2), rtol=1e-5)
