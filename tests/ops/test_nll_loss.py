"""Negative log likelihood of rows and images, and its gradients, against the CPU."""

import itertools

import pytest
import torch
from torch.nn import functional

aten = torch.ops.aten
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float32: 1e-5, torch.float64: 1e-12}
SHAPES = [(7,), (5, 3), (0, 3), (9000, 4), (2, 3, 4, 5), (1, 3, 1, 7), (0, 3, 2, 2)]

pytestmark = pytest.mark.usefixtures("strict")


def run(
    device: str, shape: tuple[int, ...], dtype: torch.dtype, reduction: str, *, weighted: bool, ignored: int, byte: bool
) -> list[torch.Tensor]:
    """Return the loss, and the gradient of its input."""
    generator = torch.Generator().manual_seed(1)
    classes = shape[0] if len(shape) == 1 else shape[1]
    values = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    sizes = shape[:0] if len(shape) == 1 else (shape[0], *shape[2:])
    target = torch.randint(0, classes, sizes, generator=generator).to(torch.uint8 if byte else torch.int64)
    weight = torch.rand(classes, generator=generator, dtype=torch.float64).to(dtype) + 0.5 if weighted else None
    values = values.to(device).requires_grad_()
    weight = None if weight is None else weight.to(device)
    loss = functional.nll_loss(values, target.to(device), weight, reduction=reduction, ignore_index=ignored)
    loss.backward(torch.full_like(loss, 0.5))
    return [loss.detach(), values.grad]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_losses_and_gradients(shape: tuple[int, ...], dtype: torch.dtype, reduction: str) -> None:
    for weighted, ignored, byte in [(False, -100, False), (True, -100, False), (True, 1, False), (False, 1, len(shape) < 3)]:
        options = {"weighted": weighted, "ignored": ignored, "byte": byte}
        mine, theirs = run("rustdev", shape, dtype, reduction, **options), run("cpu", shape, dtype, reduction, **options)
        for actual, expected in zip(mine, theirs, strict=True):
            assert actual.device.type == "rustdev"
            assert actual.stride() == expected.stride()
            torch.testing.assert_close(actual.cpu(), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], equal_nan=True)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_total_weights(reduction: int) -> None:
    weight = torch.tensor([0.5, 1.0, 2.0])
    rows, row = (torch.randn(4, 3), torch.tensor([0, 2, 1, 1])), (torch.randn(3), torch.tensor(2))
    for ignored, (values, target) in itertools.product((-100, 1, 2), (rows, row)):
        mine = aten.nll_loss_forward(values.to("rustdev"), target.to("rustdev"), weight.to("rustdev"), reduction, ignored)
        theirs = aten.nll_loss_forward(values, target, weight, reduction, ignored)
        torch.testing.assert_close([part.cpu() for part in mine], list(theirs), equal_nan=True)


def test_nothing_but_ignored_targets() -> None:
    for shape, target in [((2, 3), torch.ones(2).long()), ((2, 3, 1, 2), torch.ones(2, 1, 2).long())]:
        results = []
        for device in ("cpu", "rustdev"):
            values = torch.ones(shape, device=device, requires_grad=True)
            loss = functional.nll_loss(values, target.to(device), ignore_index=1)
            loss.backward()
            results.append([loss.detach().cpu(), values.grad.cpu()])
        torch.testing.assert_close(*results, equal_nan=True)


def test_strided_inputs() -> None:
    values = torch.randn(3, 5, 4, 2).permute(0, 3, 2, 1)
    target = torch.randint(0, 2, (3, 5, 4)).permute(0, 2, 1)
    torch.testing.assert_close(
        functional.nll_loss(values.to("rustdev"), target.to("rustdev")).cpu(), functional.nll_loss(values, target)
    )
    rows, classes = torch.randn(3, 5).t(), torch.tensor([0, 9, 2, 9, 1, 9, 0, 9, 2, 9])[::2]
    mine = functional.nll_loss(rows.to("rustdev"), classes.to("rustdev"), reduction="none")
    torch.testing.assert_close(mine.cpu(), functional.nll_loss(rows, classes, reduction="none"))


def test_given_results() -> None:
    values, target = torch.randn(4, 3).to("rustdev"), torch.tensor([0, 2, 1, 1]).to("rustdev")
    out, total = torch.empty(8, device="rustdev")[::2], torch.empty((), device="rustdev")
    aten.nll_loss_forward.output(values, target, None, 0, -100, output=out, total_weight=total)
    torch.testing.assert_close(out, aten.nll_loss_forward(values, target, None, 0, -100)[0])
    grad = torch.empty(0, device="rustdev")
    arguments = (torch.ones((), device="rustdev"), values, target, None, 2, -100, total)
    aten.nll_loss_backward.grad_input(*arguments, grad_input=grad)
    torch.testing.assert_close(grad, aten.nll_loss_backward(*arguments))
    images, positions = torch.randn(2, 3, 2, 2).to("rustdev"), torch.ones(2, 2, 2).long().to("rustdev")
    out = torch.empty(0, device="rustdev")
    aten.nll_loss2d_forward.output(images, positions, None, 0, -100, output=out, total_weight=total)
    torch.testing.assert_close(out, -images[:, 1])


def test_errors() -> None:
    for device in ("cpu", "rustdev"):
        values = torch.ones(2, 3, device=device)
        with pytest.raises(ValueError, match="batch_size"):
            functional.nll_loss(values, torch.ones(3, device=device).long())
        with pytest.raises(RuntimeError, match="weight tensor should be defined"):
            functional.nll_loss(values, torch.ones(2, device=device).long(), torch.ones(2, device=device))
    functional.nll_loss(torch.ones(2, 3, device="rustdev"), torch.tensor([0, 3]).to("rustdev"))
    with pytest.raises(torch.AcceleratorError, match=r"Target 3 is out of bounds"):
        torch.rustdev.synchronize()
