"""Strides of convolutions: fake tensors have the strides of the device's kernels, and compiled graphs rely on it."""

import itertools

import pytest
import torch
from generated import check
from torch._subclasses import FakeTensorMode
from torch.nn import functional

FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}
CONVOLUTIONS = {
    "conv1d": functional.conv1d,
    "conv2d": functional.conv2d,
    "conv3d": functional.conv3d,
    "conv_transpose2d": functional.conv_transpose2d,
    "conv_transpose3d": functional.conv_transpose3d,
}


def arguments(name: str, last: tuple[bool, bool], batch: bool) -> tuple[torch.Tensor, torch.Tensor]:
    dims = int(name[-2])
    x, weight = torch.randn(2, 4, *([5] * dims)), torch.randn(4, 4, *([3] * dims))
    if dims > 1:
        x, weight = (
            it.contiguous(memory_format=FORMATS[dims + 2]) if is_last else it for it, is_last in zip((x, weight), last, strict=True)
        )
    return (x if batch else x[0]), weight


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_fake_strides_are_real_ones(name: str) -> None:
    function = CONVOLUTIONS[name]
    for last, batch in itertools.product(itertools.product((False, True), repeat=2), (False, True)):
        x, weight = (it.to("rustdev").requires_grad_() for it in arguments(name, last, batch))
        real = function(x, weight)
        gradients = torch.autograd.grad(real, (x, weight), torch.ones_like(real))
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            fakes = tuple(mode.from_tensor(it.detach()).requires_grad_() for it in (x, weight))
            fake = function(*fakes)
            fake_gradients = torch.autograd.grad(fake, fakes, torch.ones_like(fake))
        assert [it.stride() for it in (fake, *fake_gradients)] == [it.stride() for it in (real, *gradients)], (last, batch)


def test_other_devices_keep_their_strides() -> None:
    with FakeTensorMode():
        x = torch.empty(2, 4, 5, 5).to(memory_format=torch.channels_last)
        assert functional.conv2d(x, torch.empty(4, 4, 3, 3)).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["conv2d", "conv_transpose2d"])
@pytest.mark.parametrize("last", [(True, False), (False, True)], ids=["input", "weight"])
def test_compiled(name: str, last: tuple[bool, bool]) -> None:
    x, weight = (it.requires_grad_() for it in arguments(name, last, batch=True))
    check(lambda x, weight: CONVOLUTIONS[name](x.sin(), weight).relu(), x, weight, rtol=1e-4, atol=1e-4)
