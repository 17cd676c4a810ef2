"""Operators that run PyTorch's CPU kernels as tasks of the stream: large batches, graphs, errors; no call waits.

Their values on small samples are compared in test_opinfo.py.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
from comparison import compare, compare_errors
from torch import nn
from torch.nn import functional

DEVICE = "rustdev"
# What gradients are made of besides, or what reads values.
MAY_FALL_BACK = ["linalg_lu_solve", "geqrf", "segment_reduce"]


def image(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(sizes, generator=torch.Generator().manual_seed(0)).to(dtype)


def matrices(*sizes: int) -> torch.Tensor:
    return image(*sizes) + 4 * torch.eye(sizes[-1])


LARGE: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]] = {
    "avg_pool2d": (lambda x: nn.functional.avg_pool2d(x, 3, padding=1), image(24, 16, 64, 64)),
    "avg_pool2d of one image": (lambda x: nn.functional.avg_pool2d(x, 2), image(64, 128, 128)),
    "adaptive_max_pool2d": (lambda x: nn.functional.adaptive_max_pool2d(x, 5), image(24, 16, 64, 64)),
    "adaptive_avg_pool2d": (lambda x: nn.functional.adaptive_avg_pool2d(x, 5), image(24, 16, 64, 64)),
    "adaptive_avg_pool2d, channels last": (
        lambda x: nn.functional.adaptive_avg_pool2d(x, (5, 3)),
        image(24, 16, 64, 64).contiguous(memory_format=torch.channels_last),
    ),
    "adaptive_avg_pool3d": (lambda x: nn.functional.adaptive_avg_pool3d(x, 5), image(6, 8, 16, 32, 32)),
    "max_pool3d": (lambda x: nn.functional.max_pool3d(x, 3, 2, 1), image(6, 8, 16, 32, 32)),
    "max_unpool2d": (
        lambda x: nn.functional.max_unpool2d(*nn.functional.max_pool2d(x, 2, return_indices=True), 2),
        image(24, 16, 64, 64),
    ),
    "grid_sample": (
        lambda x: nn.functional.grid_sample(x, 2 * x[:, 0, :, :32].unflatten(2, (16, 2)) - 1, align_corners=False),
        image(24, 16, 64, 64),
    ),
    "bilinear": (lambda x: nn.functional.interpolate(x, scale_factor=2, mode="bilinear"), image(12, 16, 48, 48)),
    "nearest, channels last": (
        lambda x: nn.functional.interpolate(x, scale_factor=2),
        image(12, 16, 48, 48).contiguous(memory_format=torch.channels_last),
    ),
    "inverse": (torch.linalg.inv, matrices(40, 48, 48)),
    "solve": (lambda x: torch.linalg.solve(x, x[..., :5]), matrices(40, 48, 48)),
    "solve of one right side": (lambda x: torch.linalg.solve(x, x[0]), matrices(48, 48, 48)),
    "solve_triangular": (lambda x: torch.linalg.solve_triangular(x, x[..., :5], upper=True), matrices(40, 48, 48)),
    "cholesky_solve": (lambda x: torch.cholesky_solve(x[..., :5], x), matrices(40, 48, 48)),
    "cdist": (lambda x: torch.cdist(x, x.flip(1) + 2), image(40, 64, 48)),
    "matrix_exp": (lambda x: torch.linalg.matrix_exp(x / 8), image(40, 24, 24)),
    "lu": (lambda x: torch.linalg.lu(x)[2], matrices(40, 3, 48, 48)),
    "one large matrix": (torch.linalg.det, matrices(300, 300) / 100),
}


@pytest.mark.parametrize("name", LARGE)
def test_batches_are_divided_among_the_threads(name: str) -> None:
    torch.rustdev.set_fallback_allowlist(MAY_FALL_BACK)
    function, given = LARGE[name]

    def run(x: torch.Tensor) -> list[torch.Tensor]:
        found = function(x.requires_grad_())
        return [found.detach(), *torch.autograd.grad(found.square().sum(), x)]

    compare(run, given, rtol=1e-3, atol=1e-3, signs=False)


def labels(value: int) -> torch.Tensor:
    return torch.full((8, 2), value, device=DEVICE)


def ctc_loss(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.ctc_loss(scores.log_softmax(2), targets, [3] * 8, [2] * 8, reduction="sum")


QUEUED: dict[str, Callable[[torch.Tensor], object]] = {
    "avg_pool2d": lambda x: nn.functional.avg_pool2d(x, 2),
    "interpolate": lambda x: nn.functional.interpolate(x, scale_factor=2, mode="bicubic"),
    "inv_ex": lambda x: torch.linalg.inv_ex(x),
    "solve_ex": lambda x: torch.linalg.solve_ex(x, x),
    "qr": lambda x: torch.linalg.qr(x),
    "rfft2": lambda x: torch.fft.rfft2(x),
    "grid_sample": lambda x: nn.functional.grid_sample(x, x[:, 0, :, :2].unsqueeze(1), align_corners=False),
    "adaptive_avg_pool2d": lambda x: nn.functional.adaptive_avg_pool2d(x, 3),
    "solve_triangular": lambda x: torch.linalg.solve_triangular(x, x, upper=False),
    "cdist": lambda x: torch.cdist(x, x),
    "ctc_loss": lambda x: ctc_loss(x[0], labels(1)),
    "multi_margin_loss": lambda x: nn.functional.multi_margin_loss(x[0, 0], labels(1)[:, 0]),
    # Operators of the device itself.
    "conv2d": lambda x: nn.functional.conv2d(x, x[:, :, :3, :3]),
    "attention": lambda x: nn.functional.scaled_dot_product_attention(x, x, x),
}


@contextlib.contextmanager
def new_stream() -> Iterator[torch.Stream]:
    """A stream behind what the current one has, current inside."""
    stream = torch.rustdev.Stream()
    stream.wait_stream(torch.rustdev.current_stream())
    with torch.rustdev.stream(stream):
        yield stream


@pytest.mark.parametrize("name", QUEUED)
def test_no_call_waits(name: str) -> None:
    x = matrices(2, 3, 8, 8).to(DEVICE)
    with new_stream() as stream:
        torch.rustdev._sleep(300_000_000)
        QUEUED[name](x)
        assert not stream.query()
    stream.synchronize()


CLASSES, LABELS = torch.tensor([3, 0, 1, 4]), torch.tensor([[0, 1, -1, 2, 3], [4, -1, 0, 1, 2], [2, 3, 4, -1, 0], [1, -1, 2, 3, 4]])
shrink = partial(functional.interpolate, size=(5, 4), antialias=True)
#: PyTorch's kernels are slow with 16 bit floats, or round more than once: sizes of operands, and whether gradients are such, too.
WIDENED: dict[str, tuple[Callable[..., torch.Tensor], list[tuple[int, ...]], bool]] = {
    "grid_sample": (partial(functional.grid_sample, mode="bicubic", align_corners=False), [(2, 3, 5, 6), (2, 4, 3, 2)], True),
    "grid_sample of volumes": (partial(functional.grid_sample, align_corners=False), [(2, 3, 4, 5, 6), (2, 3, 4, 2, 3)], True),
    "adaptive_avg_pool3d": (partial(functional.adaptive_avg_pool3d, output_size=(2, 3, 2)), [(2, 3, 5, 6, 7)], True),
    "interpolate": (partial(functional.interpolate, scale_factor=2.5, mode="linear"), [(2, 3, 9)], False),
    "cross": (torch.linalg.cross, [(4, 3), (4, 3)], False),
    "addbmm": (torch.addbmm, [(4, 5), (6, 4, 7), (6, 7, 5)], False),
    "matrix_exp": (torch.linalg.matrix_exp, [(3, 4, 4)], False),
}
#: Likewise, of kernels that the CPU does not have, beside its own in float32: but for the last bit of results, and the last two of
#: gradients.
ROUGH: dict[str, tuple[Callable[..., torch.Tensor], list[tuple[int, ...]], bool]] = {
    "avg_pool3d": (lambda x: functional.avg_pool3d(x, 3, 2, 1), [(2, 3, 7, 8, 9)], True),
    "bilinear, antialiased": (partial(shrink, mode="bilinear"), [(2, 3, 11, 12)], True),
    "bicubic, antialiased": (partial(shrink, mode="bicubic"), [(2, 3, 11, 12)], True),
    "multi_margin_loss": (lambda x: functional.multi_margin_loss(x, CLASSES.to(x.device), reduction="none"), [(4, 5)], True),
    "multilabel_margin_loss": (
        lambda x: functional.multilabel_margin_loss(x, LABELS.to(x.device), reduction="none"),
        [(4, 5)],
        True,
    ),
    "weight_norm": (lambda v, g: torch._weight_norm(v, g, 0), [(6, 5, 3), (6, 1, 1)], True),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", WIDENED | ROUGH)
def test_16_bit_floats_are_float32_rounded_once(name: str, dtype: torch.dtype) -> None:
    call, shapes, has_gradients = (WIDENED | ROUGH)[name]
    given = [torch.randn(shape).to(DEVICE, dtype) for shape in shapes]
    # Each operand alone has a gradient as well: the others are not wanted then.
    for wanted in [given, *([it] for it in given)] if has_gradients else [given]:
        results = []
        for computed, device in ((dtype, DEVICE), (torch.float32, "cpu" if name in ROUGH else DEVICE)):
            leaves = [it.to(device, computed, copy=True).requires_grad_(any(it is one for one in wanted)) for it in given]
            result = call(*leaves)
            results.append([result.detach()])
            if has_gradients:
                grad = torch.linspace(-1, 1, result.numel()).view(result.shape).to(dtype).to(device, computed)
                results[-1] += torch.autograd.grad(result, [leaf for leaf in leaves if leaf.requires_grad], grad)
        for place, (one, other) in enumerate(zip(*results, strict=True)):
            tolerance = (4 if place else 1) * torch.finfo(dtype).eps if name in ROUGH else 0
            torch.testing.assert_close(one.cpu(), other.cpu().to(dtype), rtol=tolerance, atol=tolerance)


@pytest.mark.usefixtures("fallback")
def test_errors_are_those_of_the_cpu() -> None:
    compare_errors(torch.linalg.inv, torch.zeros(3, 3))
    compare_errors(torch.linalg.inv, torch.zeros(2, 3))
    compare_errors(lambda x: functional.avg_pool2d(x, 2, padding=2), torch.zeros(1, 1, 4, 4))
    narrow, wide = torch.ones(3, 3).half(), torch.ones(2, 3, 3)
    compare_errors(torch.addbmm, narrow, wide, wide)
    compare_errors(torch.linalg.cross, narrow, wide[0])
