"""Known results for NaN, infinities, subnormal and huge numbers, independent of the CPU's results."""

import math
from collections.abc import Callable

import pytest
import torch
from comparison import COMPLEX, FLOATS
from torch.nn import functional

INF, NAN = math.inf, math.nan
LEAST = {torch.float32: 2.0**-149, torch.float64: 2.0**-1074}


def on_device(values: object, dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype).to("rustdev")


def gradient(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """Return the gradient of a function's results for ones, on the CPU."""
    x = x.requires_grad_()
    result = function(x)
    return torch.autograd.grad(result, x, torch.ones_like(result))[0].cpu()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gradients_at_nan(dtype: torch.dtype) -> None:
    given = [NAN] * 40
    for stays in (functional.elu, functional.selu, functional.celu, functional.hardswish, lambda x: torch.logit(x, 0.1)):
        assert gradient(stays, on_device(given, dtype)).isnan().all()
    # What does not look at its size lets the gradient through, as on CUDA.
    for passes in (functional.hardtanh, functional.relu6, functional.hardshrink, functional.softshrink, functional.threshold):
        function = (lambda x: functional.threshold(x, 0.5, 0.0)) if passes is functional.threshold else passes
        assert (gradient(function, on_device(given, dtype)) == 1).all(), passes


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_directions_of_the_least_complex_numbers(dtype: torch.dtype) -> None:
    least = LEAST[dtype.to_real()]
    given = on_device([complex(0, least), complex(-3 * least, 3 * least), complex(least, 0), 0j] * 10, dtype)
    expected = torch.tensor([1j, complex(-(0.5**0.5), 0.5**0.5), 1, 0] * 10, dtype=dtype)
    torch.testing.assert_close(given.sgn().cpu(), expected)
    torch.testing.assert_close(gradient(torch.abs, given), expected)
    assert given.abs().cpu().tolist()[:4] == [least, 4 * least, least, 0.0]


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_powers_of_complex_nan(dtype: torch.dtype) -> None:
    nan = on_device([complex(NAN, 1), complex(INF, NAN), complex(NAN, NAN)], dtype)
    for ones in (nan**0, 1**nan, torch.pow(1.0, nan), torch.pow(nan, 0.0)):
        assert (ones.cpu() == 1).all()
    out = torch.empty_like(nan)
    assert (torch.pow(1, nan, out=out).cpu() == 1).all()
    assert (gradient(lambda x: 1**x, nan) == 0).all()
    huge = torch.tensor([complex(-1000, -INF), complex(0, torch.finfo(dtype).max / 2)], dtype=dtype)
    assert torch.equal(huge.to("rustdev").pow(1).cpu(), huge)
    assert gradient(torch.square, huge[1:].to("rustdev")).imag.isfinite().all()


def test_complex_exponentials() -> None:
    far = on_device([complex(-100, 0), complex(-1000, 2)], torch.complex64)
    assert far.sigmoid().cpu().isfinite().all()
    silu = functional.silu(far).cpu()
    assert abs(silu[0] + 3.720076e-42) < 2e-45
    assert silu[1] == 0
    near = on_device([complex(-20, 3)], torch.complex128)
    assert abs((torch.expm1(near).cpu() + 1).item() - torch.exp(near).cpu().item()) < 1.2e-16


def test_special_functions_at_their_limits() -> None:
    def of(function: Callable[[torch.Tensor], torch.Tensor], *values: float) -> list[float]:
        return function(on_device(list(values), torch.float64)).cpu().tolist()

    logs = of(torch.lgamma, 5e-324, -5e-324, 2.5e-309, 0.0)
    assert logs == pytest.approx([744.4400719213812, 744.4400719213812, -math.log(2.5e-309), INF])
    assert of(torch.digamma, 5e-324, -5e-324, 1e-305) == pytest.approx([-INF, INF, -1e305])
    assert of(torch.special.erfcx, 1.7976931348623157e308) == pytest.approx([3.138408733985445e-309])
    for odd in (torch.special.i1, torch.special.i1e):
        assert [math.copysign(1, it) for it in of(odd, -0.0, 0.0, -1.0)] == [1, 1, -1]
    assert math.copysign(1, of(torch.special.entr, -0.0)[0]) == 1
    assert math.isnan(of(torch.special.entr, NAN)[0])


def test_products_that_overflow_on_the_way() -> None:
    for dtype in (torch.bfloat16, torch.float16):
        large, small = torch.finfo(dtype).max, torch.finfo(dtype).smallest_normal
        given = on_device([large, large, small, small, small, large], dtype)
        torch.testing.assert_close(given.prod().cpu(), torch.tensor(given.cpu().double().prod().item(), dtype=dtype))
    greatest = torch.finfo(torch.float32).max
    start, end = on_device([1.0], torch.float32), on_device([greatest], torch.float32)
    assert torch.lerp(start, end, -1.0).item() == -greatest
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        start, end = on_device([2e16, 3.0, -2e16], dtype), on_device([1.0, 2e16, 0.25], dtype)
        for weight in (0.0, 0.25, 0.5, 0.75, 1.0):
            assert torch.equal(torch.lerp(start, end, weight).cpu(), torch.lerp(start.cpu(), end.cpu(), weight))
    for dtype in (torch.int8, torch.int16):
        one, other = on_device([2, -16, 100], dtype), on_device([127, -127, 63], dtype)
        assert torch.equal(torch.lcm(one, other).cpu(), torch.lcm(one.cpu(), other.cpu()))


def test_statistics_of_numbers_whose_squares_overflow() -> None:
    for dtype, size in ((torch.float64, 1e305), (torch.float32, 1e30)):
        given = on_device([[size, 1.0], [-size, 2.0], [3 * size, 4.0]], dtype)
        result = functional.batch_norm(given, None, None, training=True).cpu()
        assert result.isfinite().all()
        of_few = torch.tensor([1.0, 2.0, 4.0], dtype=dtype)
        torch.testing.assert_close(result[:, 1], (of_few - of_few.mean()) / (of_few.var(correction=0) + 1e-5).sqrt())
    # In single precision there is room for the squares in double precision.
    torch.testing.assert_close(result[:, 0], torch.tensor([0.0, -1.2247449, 1.2247449]), atol=1e-6, rtol=1e-6)


def test_positions_in_images_that_are_nan() -> None:
    for dtype in (torch.float32, torch.float64):
        image = torch.randn(2, 3, 5, 5, dtype=dtype)
        grid = torch.rand(2, 5, 5, 2, dtype=dtype)
        grid.view(-1)[::3] = NAN
        grid.view(-1)[1::7] = INF
        grid.view(-1)[2::11] = 1e30
        for padding in ("zeros", "border"):
            image_on, grid_on = image.to("rustdev").requires_grad_(), grid.to("rustdev").requires_grad_()
            result = functional.grid_sample(image_on, grid_on, padding_mode=padding, align_corners=False)
            grads = torch.autograd.grad(result, (image_on, grid_on), torch.ones_like(result))
            assert grads[0].shape == image.shape
            if padding == "border":
                bordered = grid.nan_to_num(-INF, INF, -INF).requires_grad_()
                leaf = image.clone().requires_grad_()
                expected = functional.grid_sample(leaf, bordered, padding_mode=padding, align_corners=False)
                wanted = torch.autograd.grad(expected, (leaf, bordered), torch.ones_like(expected))
                for mine, theirs in zip((result, *grads), (expected, *wanted), strict=True):
                    torch.testing.assert_close(mine.cpu(), theirs)


def test_transposed_convolutions_of_16_bits_may_be_empty() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        image, weight = on_device([[[1.0]]], dtype).requires_grad_(), on_device([[[1.0, 2.0]]], dtype)
        result = functional.conv_transpose1d(image, weight, padding=1)
        assert result.shape == (1, 1, 0)
        assert torch.autograd.grad(result, image, torch.ones_like(result))[0].item() == 0
        with pytest.raises(RuntimeError):
            functional.conv_transpose1d(image, weight, padding=2)
    with pytest.raises(RuntimeError):
        functional.conv_transpose1d(on_device([[[1.0]]], torch.float32), on_device([[[1.0, 2.0]]], torch.float32), padding=1)


@pytest.mark.usefixtures("fallback")
def test_gradients_of_distances_between_no_rows_are_refused() -> None:
    rows = torch.zeros(0, 5).to("rustdev").requires_grad_()
    distances = functional.pdist(rows)
    with pytest.raises(RuntimeError, match="expected self of size"):
        torch.autograd.grad(distances, rows, torch.ones_like(distances))
