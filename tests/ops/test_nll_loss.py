"""Negative log likelihood of rows and images, and its gradients, against the CPU."""

import itertools

import pytest
import torch
from comparison import FLOATS, SUMS, compare, compare_errors, compare_gradients, make_tensor
from torch.nn import functional

aten = torch.ops.aten
SHAPES: list[tuple[int, ...]] = [(7,), (5, 3), (0, 3), (9000, 4), (2, 3, 4, 5), (1, 3, 1, 7), (0, 3, 2, 2)]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_losses_and_gradients(shape: tuple[int, ...], dtype: torch.dtype, reduction: str) -> None:
    classes, sizes = (shape[0], ()) if len(shape) == 1 else (shape[1], (shape[0], *shape[2:]))
    values, weight = -make_tensor(shape, dtype).abs(), make_tensor((classes,), dtype).abs() + 0.5
    target = torch.randint(0, classes, sizes, generator=torch.Generator().manual_seed(1))

    def loss(values: torch.Tensor, target: torch.Tensor, weighted: bool, ignored: int) -> torch.Tensor:
        weights = weight.to(values.device) if weighted else None
        return functional.nll_loss(values, target, weights, reduction=reduction, ignore_index=ignored)

    for weighted, ignored in itertools.product((False, True), (-100, 1)):
        compare_gradients(loss, values, target, weighted, ignored, rtol=SUMS)
    if len(shape) < 3:
        compare_gradients(loss, values, target.to(torch.uint8), False, 1, rtol=SUMS)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_total_weights(reduction: int) -> None:
    weight = torch.tensor([0.5, 1.0, 2.0])
    rows, row = (torch.randn(4, 3), torch.tensor([0, 2, 1, 1])), (torch.randn(3), torch.tensor(2))
    for ignored, given in itertools.product((-100, 1, 2), (rows, row)):
        compare(aten.nll_loss_forward, *given, weight, reduction, ignored, rtol=SUMS)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 1, 2)])
def test_nothing_but_ignored_targets(shape: tuple[int, ...]) -> None:
    target = torch.ones(2, *shape[2:]).long()
    compare_gradients(lambda values: functional.nll_loss(values, target.to(values.device), ignore_index=1), torch.ones(shape))


def test_strided_inputs() -> None:
    values, target = torch.randn(3, 5, 4, 2).permute(0, 3, 2, 1), torch.randint(0, 2, (3, 5, 4)).permute(0, 2, 1)
    compare(functional.nll_loss, values, target, rtol=SUMS)
    rows, classes = torch.randn(3, 5).t(), torch.tensor([0, 9, 2, 9, 1, 9, 0, 9, 2, 9])[::2]
    compare(lambda *given: functional.nll_loss(*given, reduction="none"), rows, classes)


def test_given_results() -> None:
    rows, target, total = torch.randn(4, 3), torch.tensor([0, 2, 1, 1]), torch.tensor(4.0)
    images, positions = torch.randn(2, 3, 2, 2), torch.ones(2, 2, 2).long()
    gap, nothing = torch.empty(8)[::2], torch.empty(0)

    def forward(function: torch._ops.OpOverload, *given: torch.Tensor) -> object:
        return function(*given[:2], None, 0, -100, output=given[2], total_weight=given[3])[0]

    for given, out in (((rows, target), gap), ((rows, target), nothing)):
        compare(lambda *given: forward(aten.nll_loss_forward.output, *given), *given, out.zero_(), total)
    compare(lambda *given: forward(aten.nll_loss2d_forward.output, *given), images, positions, nothing, total)
    backward = aten.nll_loss_backward.grad_input
    compare(lambda *given: backward(*given[:3], None, 2, -100, given[3], grad_input=given[4]), total, rows, target, total, nothing)


def test_errors() -> None:
    values, target = torch.ones(2, 3), torch.ones(2).long()
    compare_errors(functional.nll_loss, values, torch.ones(3).long())
    compare_errors(functional.nll_loss, values, target, torch.ones(2))
    functional.nll_loss(values.to("rustdev"), torch.tensor([0, 3]).to("rustdev"))
    with pytest.raises(torch.AcceleratorError, match=r"Target 3 is out of bounds"):
        torch.rustdev.synchronize()
