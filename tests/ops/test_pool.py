"""Maximum pooling of images and its gradient, against the CPU."""

import math

import pytest
import torch
from comparison import TOLERANCE, compare, compare_errors, make_tensor
from torch.nn import functional

aten = torch.ops.aten
# Kernel, stride, padding, dilation, whether the last window may stick out.
WINDOWS = [
    (2, 2, 0, 1, False),
    (3, 2, 1, 1, False),
    (3, 1, 1, 1, True),
    ((3, 2), (2, 3), (1, 0), (1, 2), True),
    ((2, 3), (3, 1), (1, 1), (2, 3), False),
    (1, 1, 0, 1, False),
    (3, [], 0, 1, True),
]
SHAPES = [(2, 3, 9, 11), (40, 6, 7, 7), (3, 8, 150), (1, 70, 8, 8), (2, 1, 7, 9)]
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.uint8]
#: Of gradients where windows overlap.
SUMS = TOLERANCE | {torch.float16: 4e-3, torch.bfloat16: 4e-2}


def compare_pooling(values: torch.Tensor, window: tuple[object, ...]) -> None:
    """Pool on both devices, forth and back."""
    compare(aten.max_pool2d_with_indices, values, *window)
    if values.is_floating_point():
        pooled, positions = aten.max_pool2d_with_indices(values, *window)
        grad = make_tensor(pooled.shape, values.dtype).to(memory_format=torch.preserve_format)
        compare(aten.max_pool2d_with_indices_backward, grad, values, *window, positions, rtol=SUMS)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows(window: tuple[object, ...], dtype: torch.dtype) -> None:
    for seed, shape in enumerate(SHAPES):
        values = (20 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))).to(dtype)
        compare_pooling(values, window)
        if len(shape) == 4:
            compare_pooling(values.to(memory_format=torch.channels_last), window)
        compare_pooling(torch.cat([values, values], -1)[..., ::2], window)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_nan_and_infinity(layout: torch.memory_format) -> None:
    values = torch.randn(2, 4, 6, 8, generator=torch.Generator().manual_seed(0))
    values[0, 1, 2, 2:5] = math.nan
    values[0, 2] = -math.inf
    values[1, 0, 0] = math.inf
    values[1, 3] = 1.0
    for window in WINDOWS:
        compare_pooling(values.to(memory_format=layout), window)


def test_errors() -> None:
    values = torch.ones(1, 1, 4, 4, device="rustdev")
    pooled, positions = aten.max_pool2d_with_indices(values, 2)
    with pytest.raises(RuntimeError, match="expected scalar type Long but found Int"):
        aten.max_pool2d_with_indices_backward(pooled, values, [2, 2], [2, 2], [0, 0], [1, 1], False, positions.int())
    for sizes, options in (
        ((1, 1, 4, 4), {"kernel_size": 2, "padding": 2}),
        ((1, 1, 2, 2), {"kernel_size": 3}),
        ((4, 4), {"kernel_size": 2}),
    ):
        compare_errors(lambda x, options=options: functional.max_pool2d(x, **options), torch.ones(sizes))
