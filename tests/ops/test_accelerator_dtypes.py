"""Dtypes that other accelerators support and PyTorch's CPU device rejects: code written for accelerators relies on them."""

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

pytestmark = pytest.mark.usefixtures("strict")

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
CLASSES = torch.tensor([3, 0, 1, 4])
LABELS = torch.tensor([[0, 1, -1, 2, 3], [4, -1, 0, 1, 2], [2, 3, 4, -1, 0], [1, -1, 2, 3, 4]])

#: By name the call, and the sizes of what it takes.
ROUNDED: dict[str, tuple[Callable[..., torch.Tensor], list[tuple[int, ...]]]] = {
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 3, 2, 1), [(2, 3, 7, 8, 9)]),
    "bilinear, antialiased": (lambda x: F.interpolate(x, size=(5, 4), mode="bilinear", antialias=True), [(2, 3, 11, 12)]),
    "bicubic, antialiased": (lambda x: F.interpolate(x, size=(5, 4), mode="bicubic", antialias=True), [(2, 3, 11, 12)]),
    "multi_margin_loss": (lambda x: F.multi_margin_loss(x, CLASSES.to(x.device), reduction="none"), [(4, 5)]),
    "multilabel_margin_loss": (lambda x: F.multilabel_margin_loss(x, LABELS.to(x.device), reduction="none"), [(4, 5)]),
    "weight_norm": (lambda v, g: torch._weight_norm(v, g, 0), [(6, 5, 3), (6, 1, 1)]),
}


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_have_a_histogram(dtype: torch.dtype) -> None:
    given = torch.randint(0, 16, (3, 500)).to(dtype)
    counts = torch.histc(given.fmod(10).to("rustdev"), bins=10, min=0, max=9)
    assert counts.dtype == dtype
    assert counts.tolist() == given.fmod(10).flatten().bincount(minlength=10).to(dtype).tolist()
    wide, narrow = torch.histc(given.double(), 7, 2, 11), torch.histc(given.to("rustdev"), 7, 2, 11)
    assert narrow.tolist() == wide.to(dtype).tolist()
    out = torch.empty(7, dtype=dtype, device="rustdev")
    assert torch.histc(given.to("rustdev"), 7, 2, 11, out=out) is out
    assert out.tolist() == narrow.tolist()


def test_integers_without_limits_are_counted_between_the_least_and_the_greatest() -> None:
    assert torch.histc(torch.tensor([3, 4, 4, 5], device="rustdev"), 3).tolist() == [1, 2, 1]
    assert torch.histc(torch.tensor([7, 7], device="rustdev"), 4).tolist() == [0, 0, 2, 0]


def test_a_histogram_of_integers_refuses_what_others_refuse() -> None:
    ones = torch.ones(3, dtype=torch.int32, device="rustdev")
    with pytest.raises(RuntimeError, match="bins must be > 0"):
        torch.histc(ones, 0)
    with pytest.raises(RuntimeError, match="max must be larger than min"):
        torch.histc(ones, 3, 2, 1)
    with pytest.raises(RuntimeError, match="dtype Int, but got Float"):
        torch.histc(ones, 3, 0, 1, out=torch.empty(3, device="rustdev"))
    with pytest.raises(RuntimeError, match="same device"):
        torch.histc(ones, 3, 0, 1, out=torch.empty(3, dtype=torch.int32))
    with pytest.raises(NotImplementedError):
        torch.histc(ones.bool(), 3, 0, 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ROUNDED)
def test_16_bit_floats_are_computed_in_float32_and_rounded(name: str, dtype: torch.dtype) -> None:
    function, sizes = ROUNDED[name]
    inputs = [torch.randn(size, generator=torch.Generator().manual_seed(0)).to(dtype) for size in sizes]
    mine = [given.to("rustdev").requires_grad_() for given in inputs]
    wide = [given.float().requires_grad_() for given in inputs]
    found, wanted = function(*mine), function(*wide)
    assert found.dtype == dtype
    # Half a unit in the last place of 8 or 11 bits, and as much again where the CPU has a kernel that rounds on the way.
    tolerance = torch.finfo(dtype).eps
    torch.testing.assert_close(found.cpu().float(), wanted, rtol=tolerance, atol=tolerance)
    grad = torch.ones_like(wanted)
    found.backward(grad.to("rustdev", dtype))
    wanted.backward(grad)
    for narrow, exact in zip(mine, wide, strict=True):
        assert narrow.grad is not None
        assert exact.grad is not None
        assert narrow.grad.dtype == dtype
        torch.testing.assert_close(narrow.grad.cpu().float(), exact.grad, rtol=4 * tolerance, atol=4 * tolerance)
