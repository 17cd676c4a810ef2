"""Convolutions whose shapes PyTorch's kernels for AMX compute wrongly or die of, or that we compute as others or in parts."""

import itertools
import random

import pytest
import torch

pytestmark = pytest.mark.usefixtures("strict")

D = "rustdev"
DTYPES = [torch.bfloat16, torch.float16]
#: Function, input, weight, further arguments.
UNUSUAL = [
    ("conv_transpose1d", (1, 2, 7), (2, 1, 1), {"stride": 3, "padding": 1}),
    ("conv_transpose2d", (2, 4, 5, 8), (4, 4, 1, 2), {"stride": (2, 3), "padding": (1, 2)}),
    ("conv_transpose2d", (1, 2, 11, 10), (2, 1, 2, 1), {"stride": (1, 2), "padding": 2}),
    (
        "conv_transpose3d",
        (4, 28, 1, 2, 12),
        (28, 8, 2, 4, 4),
        {"stride": (3, 1, 3), "padding": (1, 2, 2), "dilation": (2, 1, 1), "groups": 2},
    ),
    ("conv2d", (4, 2, 12, 6), (2, 2, 4, 3), {"stride": (2, 3), "padding": (2, 0), "dilation": (1, 2)}),
    ("conv3d", (3, 3, 10, 10, 5), (3, 3, 4, 4, 3), {"stride": 3, "padding": (1, 2, 1), "dilation": (1, 1, 2)}),
    ("conv3d", (3, 6, 3, 1, 4), (2, 3, 2, 4, 1), {"stride": 2, "padding": (2, 3, 1), "dilation": (2, 2, 1), "groups": 2}),
    ("conv3d", (4, 40, 4, 1, 12), (48, 10, 1, 4, 1), {"stride": (2, 1, 3), "padding": (0, 3, 1), "dilation": 2, "groups": 4}),
]

#: The gradient of their input is that of a convolution without stride.
DEPTHWISE = [
    ("conv1d", (2, 16, 20), (16, 1, 5), {"stride": 3, "padding": 2, "dilation": 2, "groups": 16}),
    ("conv2d", (3, 8, 9, 12), (8, 1, 3, 3), {"stride": 2, "padding": 1, "groups": 8}),
    ("conv2d", (2, 6, 10, 11), (6, 1, 2, 2), {"stride": (3, 2), "groups": 6}),
    ("conv3d", (2, 4, 7, 8, 9), (4, 1, 3, 2, 3), {"stride": (2, 1, 3), "padding": 1, "groups": 4}),
]

#: In float32: volumes that PyTorch would unfold one by one, and images whose channels are divided.
DIVIDED = [
    ("conv3d", (1, 64, 4, 12, 12), (64, 64, 3, 3, 3), {"padding": 1}),
    ("conv3d", (2, 32, 4, 12, 12), (48, 32, 3, 3, 3), {"padding": (1, 0, 1), "stride": (1, 2, 1)}),
    ("conv3d", (3, 5, 4, 7, 9), (6, 5, 2, 3, 1), {"dilation": 2}),
    ("conv3d", (1, 64, 1, 4, 4), (64, 64, 3, 3, 3), {"padding": 1}),
    ("conv2d", (1, 64, 40, 40), (64, 64, 3, 3), {"padding": 1}),
    ("conv2d", (1, 3, 60, 60), (64, 3, 7, 7), {"padding": 3, "stride": 2}),
]


def check(
    name: str,
    sizes: tuple[int, ...],
    weights: tuple[int, ...],
    options: dict,
    dtype: torch.dtype,
    with_bias: bool,
    slack: float = 4,
) -> bool:
    """Hold a convolution and its gradients against float64; False where PyTorch refuses the shape."""
    function = getattr(torch.nn.functional, name)
    channels = weights[1] * options.get("groups", 1) if "transpose" in name else weights[0]
    given = [torch.randn(sizes), torch.randn(weights), torch.randn(channels) if with_bias else None]
    mine = [None if it is None else it.to(D, dtype).requires_grad_() for it in given]
    exact = [None if it is None else it.detach().cpu().double().requires_grad_() for it in mine]
    try:
        expected = function(*exact, **options)
    except RuntimeError:
        return False
    found = function(*mine, **options)
    grad = torch.randn(expected.shape).to(dtype)
    found.backward(grad.to(D))
    expected.backward(grad.double())
    rtol = slack * torch.finfo(dtype).eps
    pairs = [(found, expected)] + [(it.grad, other.grad) for it, other in zip(mine, exact, strict=True) if it is not None]
    for one, other in pairs:
        scale = float(other.detach().abs().max()) if other.numel() else 0.0
        torch.testing.assert_close(one.detach().cpu().double(), other.detach(), rtol=rtol, atol=rtol * scale)
    return True


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", UNUSUAL + DEPTHWISE, ids=lambda case: f"{case[0]}-{'x'.join(map(str, case[1]))}")
def test_unusual_shapes(case: tuple, dtype: torch.dtype, with_bias: bool) -> None:
    assert check(*case, dtype, with_bias)


@pytest.mark.parametrize("case", DIVIDED, ids=lambda case: f"{case[0]}-{'x'.join(map(str, case[1]))}")
def test_parts_of_a_batch_or_of_channels(case: tuple) -> None:
    # Sums of up to 64 x 27 products: their rounding errors grow with the square root.
    assert check(*case, torch.float32, True, slack=32)


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_shapes(dtype: torch.dtype) -> None:
    draw = random.Random(5)
    done = 0
    for turn in itertools.count():
        dims = draw.choice([1, 2, 2, 3])
        groups, most = draw.choice([1, 1, 2, 4]), draw.choice([1, 4, 16])
        inner, outer = groups * draw.randint(1, most), groups * draw.randint(1, most)
        transposed = draw.random() < 0.5

        def numbers(low: int, high: int, dims: int = dims) -> tuple[int, ...]:
            return tuple(draw.randint(low, high) for _ in range(dims))

        weights = (inner, outer // groups) if transposed else (outer, inner // groups)
        options = {"stride": numbers(1, 3), "padding": numbers(0, 3), "dilation": numbers(1, 2), "groups": groups}
        name = f"conv_transpose{dims}d" if transposed else f"conv{dims}d"
        sizes = (draw.randint(1, 4), inner, *numbers(1, 10))
        done += check(name, sizes, weights + numbers(1, 4), options, dtype, draw.random() < 0.5)
        if done == 150:
            break
        assert turn < 1000
