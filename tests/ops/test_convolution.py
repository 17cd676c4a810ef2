"""Convolutions whose shapes PyTorch's kernels for AMX compute wrongly or die of, or that we compute as others or in parts."""

import itertools
import os
import random
import subprocess
import sys
from collections import Counter

import pytest
import torch
from torch.nn import functional
from torch.rustdev import profiler

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

#: Layers of networks: the second and the third are computed in parts.
LAYERS = [
    ("conv1d", (4, 8, 50), (12, 8, 3), {"padding": 1}),
    ("conv2d", (8, 32, 24, 24), (32, 32, 3, 3), {"padding": 1}),
    ("conv2d", (1, 64, 40, 40), (64, 64, 3, 3), {"padding": 1}),
    ("conv2d", (2, 16, 9, 9), (24, 16, 1, 1), {}),
    ("conv2d", (2, 16, 12, 12), (16, 1, 3, 3), {"padding": 1, "groups": 16, "stride": 2}),
    ("conv2d", (2, 16, 9, 9), (32, 4, 3, 3), {"groups": 4}),
    ("conv_transpose2d", (2, 16, 6, 6), (16, 8, 4, 4), {"padding": 1, "stride": 2}),
    ("conv3d", (2, 4, 5, 6, 7), (6, 4, 3, 3, 3), {"padding": 1}),
]


def of_wide(
    name: str, sizes: tuple[int, ...], weights: tuple[int, ...], options: dict, dtype: torch.dtype, channels_last: bool
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return results and gradients in a 16 bit dtype, each with what it is in float32 for the same numbers, rounded."""
    outer = weights[1] if "transpose" in name else weights[0]
    given = [torch.randn(shape).to(D, dtype) for shape in (sizes, weights, (outer,))]
    if channels_last:
        given = [it.contiguous(memory_format=torch.channels_last) if it.dim() == 4 else it for it in given]
    narrow, wide = ([it.to(kind).detach().requires_grad_() for it in given] for kind in (dtype, torch.float32))
    found, expected = (getattr(functional, name)(*leaves, **options) for leaves in (narrow, wide))
    grad = torch.randn_like(expected).to(dtype)
    found.backward(grad)
    expected.backward(grad.float())
    pairs = [(found, expected), *((one.grad, other.grad) for one, other in zip(narrow, wide, strict=True))]
    assert all(one.stride() == other.stride() for one, other in pairs)
    return [(one.detach().cpu(), other.detach().cpu().to(dtype)) for one, other in pairs]


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("case", LAYERS, ids=lambda case: f"{case[0]}-{'x'.join(map(str, case[1]))}")
def test_float16_is_float32_rounded_once(case: tuple, channels_last: bool) -> None:
    (found, expected), *gradients = of_wide(*case, torch.float16, channels_last)
    # Forward with the processor's own products of float16, where it has them.
    eps = torch.finfo(torch.float16).eps if torch.cpu.get_capabilities().get("amx_fp16") else 0
    torch.testing.assert_close(found, expected, rtol=eps, atol=eps)
    for one, other in gradients:
        torch.testing.assert_close(one, other, rtol=0, atol=0)


PORTABLE = """
import torch
from test_convolution import LAYERS, of_wide

for case in LAYERS[:5]:
    for dtype in (torch.float16, torch.bfloat16):
        for one, other in of_wide(*case, dtype, False):
            torch.testing.assert_close(one, other, rtol=0, atol=0)
"""


@pytest.mark.skipif(
    "portable" not in torch.rustdev.get_arch_list(), reason="built for this processor alone; make test-portable has all"
)
def test_both_16_bit_dtypes_are_where_the_processor_has_no_products_of_them() -> None:
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    environment = os.environ | {"RUSTDEV_ISA": "portable", "RUSTDEV_FALLBACK": "error", "PYTHONPATH": path}
    run = subprocess.run([sys.executable, "-c", PORTABLE], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_tasks_of_float16_are_casts_and_one_convolution() -> None:
    found = {}
    for dtype in (torch.float16, torch.float32):
        x, weight = (torch.randn(shape).to(D, dtype).requires_grad_() for shape in ((2, 8, 9, 9), (4, 8, 3, 3)))
        result = functional.conv2d(x, weight)
        grad = torch.ones_like(result)
        with profiler.profile() as tasks:
            torch.autograd.grad(result, (x, weight), grad)
        found[dtype] = Counter(task.name for task in tasks)
    assert found[torch.float32] == Counter({"convolution_backward": 1})
    # The gradient of the result, the input and the weights.
    assert found[torch.float16] == Counter({"convolution_backward": 1, "copy_": 3})


def test_float16_takes_memory_for_one_wide_operand_and_result_at_a_time() -> None:
    peaks = []
    for dtype in (torch.float16, torch.float32):
        x, weight = (torch.randn(shape).to(D, dtype).requires_grad_() for shape in ((16, 32, 64, 64), (32, 32, 3, 3)))
        torch.rustdev.reset_peak_memory_stats()
        before = torch.rustdev.memory_allocated()
        functional.conv2d(x, weight, padding=1).sum().backward()
        peaks.append(torch.rustdev.max_memory_allocated() - before)
    # The input and the result in float32, beside the result.
    assert peaks[0] <= 2.6 * peaks[1]


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
