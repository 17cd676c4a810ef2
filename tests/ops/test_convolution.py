"""Convolutions with shapes for which PyTorch's AMX kernels are wrong or crash, those in parts, and those with a Rust kernel."""

import functools
import itertools
import random
from collections import Counter

import children
import pytest
import rustdev
import torch
from comparison import assert_any_threads, assert_near, compare, compare_gradients, exact_gradients
from torch import nn
from torch.nn import functional
from torch.rustdev import profiler

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

#: The kernels for gradients of 16 bit floats are slow with them.
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
    ("conv2d", (17, 32, 16, 16), (32, 32, 3, 3), {"padding": 1}),
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


def by_shapes(cases: list) -> pytest.MarkDecorator:
    """Run a test with each case, named by its function and the shape of its input."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: f"{case[0]}-{'x'.join(map(str, case[1]))}")


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


@pytest.mark.parametrize("dtype", [torch.float16, *[torch.bfloat16] * (rustdev._rustdev.instruction_set() == "portable")], ids=str)
@pytest.mark.parametrize("channels_last", [False, True])
@by_shapes(LAYERS)
def test_16_bits_are_float32_rounded_once(case: tuple, channels_last: bool, dtype: torch.dtype) -> None:
    (found, expected), *gradients = of_wide(*case, dtype, channels_last)
    # Forward with the processor's own products of float16, where it has them; with AVX2 by a kernel that adds in another order.
    is_packed = rustdev._rustdev.instruction_set() == "avx2" and not channels_last
    eps = torch.finfo(torch.float16).eps if is_packed or torch.cpu.get_capabilities().get("amx_fp16") else 0
    torch.testing.assert_close(found, expected, rtol=eps, atol=eps)
    for one, other in gradients:
        torch.testing.assert_close(one, other, rtol=0, atol=0)


VOLUME = """
import torch

x, weight = (torch.randn(shape, dtype=torch.bfloat16) for shape in ((1, 1, 2, 100, 100), (1, 1, 1, 3, 3)))
grads = []
for dtype in (torch.bfloat16, torch.float32):
    leaves = [value.to("rustdev", dtype).requires_grad_() for value in (x, weight)]
    result = torch.conv3d(*leaves)
    grads.append(torch.autograd.grad(result, leaves, torch.ones_like(result)))
for narrow, wide in zip(*grads):
    torch.testing.assert_close(narrow, wide.to(torch.bfloat16), rtol=0, atol=0)
"""


def test_gradients_of_volumes_with_large_planes_do_not_meet_an_overflow() -> None:
    children.run(VOLUME, check=True)  # in a process of its own, which PyTorch's kernel ends on a processor with AMX


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
    channels = weights[1] * options.get("groups", 1) if "transpose" in name else weights[0]
    given = [torch.randn(sizes), torch.randn(weights), torch.randn(channels) if with_bias else None]
    function = functools.partial(getattr(functional, name), **options)
    mine = [None if it is None else it.to(D, dtype) for it in given]
    try:
        function(*(None if it is None else it.detach().cpu().double() for it in mine))
    except RuntimeError:
        return False
    assert_near(*exact_gradients(function, mine), slack * torch.finfo(dtype).eps)
    return True


@pytest.mark.parametrize("dtype", DTYPES)
@by_shapes(UNUSUAL + DEPTHWISE)
def test_unusual_shapes(case: tuple, dtype: torch.dtype) -> None:
    assert check(*case, dtype, True)


@by_shapes(DIVIDED)
def test_parts_of_a_batch_or_of_channels(case: tuple) -> None:
    # Sums of up to 64 x 27 products: their rounding errors grow with the square root.
    assert check(*case, torch.float32, True, slack=32)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float32, torch.float64])
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
        done += check(name, sizes, weights + numbers(1, 4), options, dtype, draw.random() < 0.5, 4 if dtype.itemsize == 2 else 32)
        if done == 60:
            break
        assert turn < 1000


#: Image, kernel, further arguments: convolutions by weights of each channel.
CHANNELWISE = [
    ((9, 14), (3, 3), {"padding": 1}),
    ((8, 11), (5, 5), {"padding": 2, "stride": 2}),
    ((7, 7), (7, 7), {"padding": 3}),
    ((10, 12), (2, 4), {"padding": (0, 2), "stride": (3, 2), "dilation": (2, 1)}),
    ((4, 13), (1, 9), {"padding": (0, 4)}),
    ((5, 6), (3, 3), {"padding": (7, 8), "dilation": (2, 3)}),
    ((6, 5), (1, 1), {"padding": (2, 1), "stride": (1, 3)}),
    ((9, 9), (3, 3), {"stride": 3}),
]


def channelwise(case: tuple, channels: int, samples: int = 2) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, dict]:
    """Return images, weights and a bias on the CPU, and the arguments of a convolution of them."""
    image, kernel, options = case
    x = torch.randn(samples, channels, *image).contiguous(memory_format=torch.channels_last)
    return x, torch.randn(channels, 1, *kernel), torch.randn(channels), options | {"groups": channels}


def gradients(given: list[torch.Tensor | None], options: dict, device: str, dtype: torch.dtype) -> list[torch.Tensor]:
    """Return the result of a convolution and the gradients of its tensors, for a gradient that is no constant."""
    leaves = [None if it is None else it.to(device, dtype).detach().requires_grad_() for it in given]
    result = functional.conv2d(*leaves, **options)
    numbers = torch.arange(result.numel(), device="cpu").remainder(13).sub(6.0).view(result.shape)
    result.backward(numbers.to(device, dtype))
    return [result.detach(), *(it.grad for it in leaves if it is not None)]


@pytest.mark.parametrize("channels", [1, 16, 33])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *DTYPES])
@pytest.mark.parametrize("case", CHANNELWISE, ids=lambda case: "x".join(map(str, case[1])))
def test_channels_by_themselves(case: tuple, dtype: torch.dtype, channels: int) -> None:
    x, weight, bias, options = channelwise(case, channels)
    x, weight, bias = (it.to(dtype) for it in (x, weight, bias))
    weight_of_last = weight.contiguous(memory_format=torch.channels_last)
    for given in ([x, weight, bias], [x, weight_of_last, None], [x.contiguous(), weight, bias]):
        found, exact = gradients(given, options, D, dtype), gradients(given, options, "cpu", torch.float64)
        expected = gradients(given, options, "cpu", torch.float32)
        rtol = 32 * torch.finfo(dtype).eps if dtype.itemsize > 2 else torch.finfo(dtype).eps
        assert [it.stride() for it in found] == [it.stride() for it in expected]
        assert_near(found, exact, rtol)


@pytest.mark.parametrize("memory_format", [torch.channels_last, torch.contiguous_format])
def test_channels_by_themselves_are_launches_of_a_kernel(memory_format: torch.memory_format) -> None:
    x, weight, bias, options = channelwise(CHANNELWISE[0], 8)
    x = x.contiguous(memory_format=memory_format)
    for dtype in (torch.float32, *DTYPES):
        with profiler.profile() as tasks:
            gradients([x.to(dtype), weight.to(dtype), bias.to(dtype)], options, D, dtype)
        found = Counter(task.name for task in tasks if "depthwise" in task.name or "convolution" in task.name)
        assert found == Counter({"depthwise": 2, "depthwise_weight": 1})


@pytest.mark.parametrize("mask", list(itertools.product([False, True], repeat=3)))
def test_gradients_that_are_asked_for(mask: tuple[bool, ...]) -> None:
    x, weight, *_ = channelwise(CHANNELWISE[1], 24)

    def backward(*given: torch.Tensor) -> list[torch.Tensor]:
        found = torch.ops.aten.convolution_backward(*given, [24], [2, 2], [2, 2], [1, 1], False, [0, 0], 24, mask)
        # The CPU has some that are not asked for.
        assert given[0].is_cpu or tuple(it is not None for it in found) == mask
        return [it for it, wanted in zip(found, mask, strict=True) if wanted]

    compare(backward, torch.randn(2, 24, 4, 6), x, weight, rtol=1e-4)


def test_tensors_with_gaps_and_gradients_of_one_number() -> None:
    x, weight, bias, options = channelwise(((12, 20), (3, 3), {"padding": 1}), 17)
    given = x[:, :, ::2, 1::2], weight.expand(17, 2, 3, 3)[:, 1:], bias.repeat_interleave(2)[::2]
    compare(lambda *leaves: functional.conv2d(*leaves, **options), *given, rtol=1e-4)
    # The gradient of a sum is one number, expanded.
    compare_gradients(lambda *leaves: functional.conv2d(*leaves, **options).sum(), *given, rtol=2e-5, atol=4e-5)


def test_no_samples_of_channels_by_themselves() -> None:
    x, weight, bias, options = channelwise(CHANNELWISE[0], 8, samples=0)
    found = gradients([x, weight, bias], options, D, torch.float32)
    assert [tuple(it.shape) for it in found] == [(0, 8, 9, 14), (0, 8, 9, 14), (8, 1, 3, 3), (8,)]
    assert not found[2].cpu().any()
    assert not found[3].cpu().any()


@pytest.mark.parametrize("dtype", [torch.float32, *DTYPES])
def test_bits_of_channels_by_themselves_do_not_depend_on_threads(dtype: torch.dtype) -> None:
    x, weight, bias, options = channelwise(((40, 40), (3, 3), {"padding": 1}), 48, samples=3)
    assert_any_threads(lambda: gradients([x, weight, bias], options, D, dtype))


def test_second_gradients_of_channels_by_themselves() -> None:
    *given, options = channelwise(CHANNELWISE[1], 6)

    def second(*leaves: torch.Tensor) -> list[torch.Tensor]:
        leaves = [it.requires_grad_() for it in leaves]
        first = torch.autograd.grad(functional.conv2d(*leaves, **options).square().sum(), leaves, create_graph=True)
        results = [*first, *torch.autograd.grad(sum(it.square().sum() for it in first), leaves)]
        return [it.detach().clone(memory_format=torch.contiguous_format) for it in results]

    compare(second, *(it.double() for it in given), rtol=1e-7)


def test_convolution_keeps_channels_last() -> None:
    layer = nn.Conv2d(8, 8, 3)
    image = torch.randn(2, 8, 9, 9).to(memory_format=torch.channels_last)
    compare_gradients(layer, image, rtol=5e-5)
    result = layer.to("rustdev")(image.to("rustdev"))
    assert result.is_contiguous(memory_format=torch.channels_last)
    by_weight = layer.to(memory_format=torch.channels_last)(image.contiguous().to("rustdev"))
    assert by_weight.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(by_weight, result)


#: Images (N, C, H, W), from those with few positions to those with many, and the number of output channels.
IMAGES_OF_PRODUCTS = [
    ((2, 5, 6, 7), 3),
    ((1, 9, 5, 5), 4),
    ((3, 16, 20, 20), 24),
    ((3, 16, 20, 20), 1),
    ((2, 1, 30, 30), 6),
    ((1, 8, 1, 700), 5),
    ((2, 8, 600, 1), 5),
    ((700, 6, 1, 1), 9),
]


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(("sizes", "channels"), IMAGES_OF_PRODUCTS)
def test_windows_of_one_element(sizes: tuple[int, ...], channels: int, memory_format: torch.memory_format) -> None:
    image, layer = torch.randn(sizes).to(memory_format=memory_format), nn.Conv2d(sizes[1], channels, 1)
    weight, bias = (it.detach() for it in layer.parameters())
    compare(functional.conv2d, image, weight, bias, rtol=5e-5)
    compare(functional.conv2d, image.double(), weight.double(), bias.double(), rtol=1e-12)
    compare(functional.conv2d, image.bfloat16(), weight.bfloat16(), bias.bfloat16(), rtol=2e-2)
    spread = torch.randn(sizes[0], 2 * sizes[1], sizes[2], sizes[3] + 1)[:, ::2, :, 1:]
    compare(lambda x, w: functional.conv2d(x, w[::2]), spread, weight, rtol=5e-5)


def test_convolution_leaves_the_thread_counts_alone() -> None:
    before = torch.get_num_threads()
    nn.Conv2d(3, 5, 3).to("rustdev")(torch.randn(2, 3, 9, 8, device="rustdev")).cpu()
    assert torch.get_num_threads() == before
