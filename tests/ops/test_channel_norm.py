"""Batch and group normalization and their gradients, against the CPU."""

import pytest
import torch
from torch.nn import functional

aten = torch.ops.aten
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
# The samples' dtype and that of the parameters: float32 parameters go with narrower samples too.
PARAMETERS = [(dtype, dtype) for dtype in FLOATS] + [(torch.float16, torch.float32), (torch.bfloat16, torch.float32)]
TOLERANCE = {torch.float16: 6e-3, torch.bfloat16: 5e-2, torch.float32: 2e-5, torch.float64: 1e-11}
SHAPES = [(8, 3), (4, 5, 7), (2, 3, 8, 9), (3, 40, 5, 5), (2, 4, 3, 3, 3), (2, 6, 100, 50), (700, 2, 2, 2)]

pytestmark = pytest.mark.usefixtures("strict")


def random(shape: tuple[int, ...], seed: int, dtype: torch.dtype) -> torch.Tensor:
    """Return values around 1."""
    return (torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 1).to(dtype)


def close(mine: list[torch.Tensor | None], theirs: list[torch.Tensor | None], tolerance: float) -> None:
    """Compare results of both devices, which may be missing."""
    for actual, expected in zip(mine, theirs, strict=True):
        if expected is None:
            assert actual is None
            continue
        assert (actual.device.type, actual.dtype) == ("rustdev", expected.dtype)
        assert actual.stride() == expected.stride()
        torch.testing.assert_close(actual.cpu(), expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def formats(values: torch.Tensor) -> list[torch.Tensor]:
    """Return the values contiguous, with channels last and strided."""
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(values.dim())
    strided = torch.cat([values, values], -1)[..., ::2]
    strided.copy_(values)
    return [values, strided] + ([] if last is None else [values.to(memory_format=last)])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("dtype", "parameter"), PARAMETERS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_batch_norm(shape: tuple[int, ...], dtype: torch.dtype, parameter: torch.dtype, training: bool) -> None:
    mixed = parameter != dtype
    for values in formats(random(shape, 0, dtype)):
        channels = (shape[1],)
        for affine, running in [(True, True), (False, True), (True, False)]:
            if not (running or training):
                continue
            weight, bias = (random(channels, 1, parameter), random(channels, 2, parameter)) if affine else (None, None)
            mean, var = (random(channels, 3, parameter), random(channels, 4, parameter).abs() + 0.5) if running else (None, None)
            given = [values, weight, bias, mean, var]
            theirs = [None if tensor is None else tensor.clone() for tensor in given]
            mine = [None if tensor is None else tensor.to("rustdev") for tensor in given]
            expected = list(torch.native_batch_norm(*theirs, training, 0.3, 1e-3))
            actual = list(torch.native_batch_norm(*mine, training, 0.3, 1e-3))
            close(actual + mine[3:], expected + theirs[3:], TOLERANCE[dtype])
            if mixed and not affine:
                continue
            grad = random(shape, 5, dtype)
            arguments = (values, weight, mean, var, *expected[1:], training, 1e-3, [True, True, True])
            moved = [argument.to("rustdev") if isinstance(argument, torch.Tensor) else argument for argument in arguments]
            expected = aten.native_batch_norm_backward(grad, *arguments)
            actual = aten.native_batch_norm_backward(grad.to("rustdev"), *moved)
            scale = max(1.0, *(float(part.abs().max()) for part in expected))
            close([actual[0]], [expected[0]], TOLERANCE[dtype] * 2)
            close(list(actual[1:]), list(expected[1:]), TOLERANCE[dtype] * scale)


@pytest.mark.parametrize(
    "shape", [(1, 2, 512, 512), (4, 2, 224, 224), (32, 4, 28, 28), (5000, 40), (64, 6, 3), (3, 7, 4, 4)], ids=str
)
def test_an_offset_costs_no_digits(shape: tuple[int, ...]) -> None:
    def norms(values: torch.Tensor) -> list[torch.Tensor]:
        return [functional.batch_norm(values, None, None, training=True), functional.group_norm(values.contiguous(), 1)]

    flat = torch.full(shape, 1000.1)
    values = random(shape, 0, torch.float32) + 1000
    for layout in formats(flat)[::2]:
        assert all(float(result.abs().max()) == 0 for result in norms(layout.to("rustdev")))
    for layout in formats(values):
        for actual, expected in zip(norms(layout.to("rustdev")), norms(layout.double()), strict=True):
            torch.testing.assert_close(actual.cpu().double(), expected, rtol=0, atol=6e-5)


@pytest.mark.parametrize("shape", [(3, 2, 100, 90), (65, 24, 3), (700, 37)], ids=str)
def test_the_same_bits_for_any_number_of_threads(shape: tuple[int, ...]) -> None:
    results = []
    before = torch.rustdev.get_num_threads()
    for count in (1, 2, 3):
        torch.rustdev.set_num_threads(count)
        values = (random(shape, 0, torch.float32) * 3).to("rustdev").requires_grad_()
        scale = torch.ones(shape[1], device="rustdev", requires_grad=True)
        for norm in (functional.batch_norm(values, None, None, scale, training=True), functional.group_norm(values, 1, scale)):
            norm.backward(norm.detach().sin())
        results.append([values.grad.cpu(), scale.grad.cpu()])
    torch.rustdev.set_num_threads(before)
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=0, atol=0)


def test_parameters_of_another_dtype_than_the_gradients() -> None:
    values = random((4, 3, 5), 0, torch.bfloat16)
    for weight in (None, torch.ones(3)):
        statistics = [torch.zeros(3), torch.ones(3)]
        results = []
        for device in ("cpu", "rustdev"):
            given = [part.to(device) for part in (values, values)]
            scale = None if weight is None else weight.to(device)
            mean, var = (part.to(device) for part in statistics)
            results.append(
                list(aten.native_batch_norm_backward(*given, scale, mean, var, mean, var, True, 1e-5, [True, True, True]))
            )
        close(results[1], results[0], 2e-2)


def test_running_statistics_with_gaps() -> None:
    values = random((4, 3, 5), 0, torch.float32)
    results = []
    for device in ("cpu", "rustdev"):
        both = torch.ones(3, 2, device=device)
        output = functional.batch_norm(values.to(device), both[:, 0], both[:, 1], training=True)
        results.append([output.cpu(), both.cpu()])
        results[-1].append(functional.batch_norm(values.to(device), both[:, 0], both[:, 1]).cpu())
    torch.testing.assert_close(results[1], results[0])


def test_parameters_of_the_wrong_size_are_refused() -> None:
    values, three, two = (torch.ones(shape, device="rustdev") for shape in ((4, 3, 5), (3,), (2,)))
    for given in ([two, None, None, None], [None, two, None, None], [None, None, two, three], [None, None, three, two]):
        with pytest.raises(RuntimeError, match="a value for each of 3 channels, got 2"):
            torch.native_batch_norm(values, *given, True, 0.1, 1e-5)
    with pytest.raises(RuntimeError, match="expected running statistics"):
        torch.native_batch_norm(values, None, None, None, None, False, 0.1, 1e-5)
    mask = [True, True, True]
    with pytest.raises(RuntimeError, match="expected saved statistics"):
        aten.native_batch_norm_backward(values, values, three, three, three, None, None, True, 1e-5, mask)
    with pytest.raises(RuntimeError, match="expected a gradient of sizes"):
        aten.native_batch_norm_backward(values[:2], values, three, three, three, three, three, True, 1e-5, mask)
    with pytest.raises(RuntimeError, match="a value for each of 3 channels, got 2"):
        aten.native_batch_norm_backward(values, values, two, three, three, three, three, True, 1e-5, mask)


def test_names_of_batch_norm() -> None:
    values, weight = random((4, 3, 5), 0, torch.float32), random((3,), 1, torch.float32)
    results: dict[str, list[torch.Tensor]] = {}
    for device in ("cpu", "rustdev"):
        given, scale = values.to(device), weight.to(device)
        mean, var = torch.zeros(3, device=device), torch.ones(3, device=device)
        results[device] = [*torch._native_batch_norm_legit(given, scale, None, mean, var, True, 0.1, 1e-5), mean, var]
        results[device] += torch._native_batch_norm_legit(given, scale, None, True, 0.1, 1e-5)
        updated = aten._batch_norm_with_update(given, scale, None, mean, var, 0.1, 1e-5)
        results[device] += [*updated, mean, var]
        results[device] += aten._batch_norm_no_update(given, scale, None, mean, var, 0.1, 1e-5)
        arguments = (mean, var, updated[1], updated[2], True, 1e-5, [True, True, False], updated[3])
        results[device] += [*aten.batch_norm_backward(given, given, scale, *arguments)]
    close(results["rustdev"], results["cpu"], 1e-5)


def test_modules_learn() -> None:
    for module in (torch.nn.BatchNorm2d(4), torch.nn.GroupNorm(2, 4), torch.nn.InstanceNorm2d(4, affine=True)):
        grads = []
        values = random((3, 4, 6, 5), 0, torch.float32)
        for device in ("cpu", "rustdev"):
            module.to(device).zero_grad()
            given = values.to(device, copy=True).requires_grad_()
            module(given).sin().sum().backward()
            # Copies: the module's own gradients move along with it.
            grads.append([it.grad.cpu().clone() for it in (given, module.weight, module.bias)])
        torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(2, 4), (2, 6, 7), (3, 8, 5, 9), (1, 4, 70, 80), (64, 12, 9, 9)], ids=str)
def test_group_norm(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    samples, channels = shape[:2]
    positions = torch.Size(shape[2:]).numel()
    values, grad = random(shape, 0, dtype), random(shape, 1, dtype)
    for groups in {1, 2, channels // 4 or 1, channels}:
        for affine in (True, False):
            weight, bias = (random((channels,), 2, dtype), random((channels,), 3, dtype)) if affine else (None, None)
            options = (samples, channels, positions, groups)
            expected = aten.native_group_norm(values, weight, bias, *options, 1e-3)
            mine = [None if tensor is None else tensor.to("rustdev") for tensor in (values, weight, bias)]
            actual = aten.native_group_norm(*mine, *options, 1e-3)
            close(list(actual), list(expected), TOLERANCE[dtype])
            masks = [[True, affine, affine], [False, affine, False]]
            for mask in masks:
                theirs = aten.native_group_norm_backward(grad, values, *expected[1:], weight, *options, mask)
                moved = [tensor.to("rustdev") for tensor in (grad, values, *expected[1:])]
                backward = aten.native_group_norm_backward(*moved, mine[1], *options, mask)
                given = [part for part in theirs if part is not None]
                scale = max(1.0, *(float(part.abs().max()) for part in given)) if given else 1.0
                close(list(backward), list(theirs), TOLERANCE[dtype] * scale)


def test_errors() -> None:
    for device in ("cpu", "rustdev"):
        values = torch.ones(2, 4, 3, device=device)
        with pytest.raises(RuntimeError, match="weight should contain 4 elements"):
            functional.batch_norm(values, None, None, torch.ones(3, device=device), training=True)
        with pytest.raises(RuntimeError, match="divisible"):
            functional.group_norm(values, 3)
        mixed = torch.ones(4, device=device, dtype=torch.float64)
        with pytest.raises(RuntimeError, match="mixed dtype"):
            torch.native_batch_norm(values, mixed, None, None, None, True, 0.1, 1e-5)


@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64], ids=str)
def test_group_norm_of_another_dtype_is_refused(dtype: torch.dtype) -> None:
    for device in ("cpu", "rustdev"):
        values, means = (torch.ones(sizes, dtype=dtype, device=device) for sizes in ((2, 4, 3), (2, 2)))
        with pytest.raises(NotImplementedError, match="not implemented for"):
            torch.native_group_norm(values, None, None, 2, 4, 3, 2, 1e-5)
        with pytest.raises(NotImplementedError, match="not implemented for"):
            aten.native_group_norm_backward(values, values, means, means, None, 2, 4, 3, 2, [True, False, False])
