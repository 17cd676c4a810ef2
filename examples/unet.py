"""Trains a U-Net to segment handwritten digits in noisy images.

    python examples/unet.py [--device rustdev|cpu] [--steps N] [--amp] [--quiet]

The network is that of Ronneberger et al., U-Net (https://arxiv.org/abs/1505.04597), smaller and with padding, so that output and
input have the same size. The digits are scikit-learn's; the noise and the masks are synthetic.
"""

from __future__ import annotations

import itertools

import resnet
import torch
import training_loop
from torch import Tensor, nn
from torch.nn import functional

NOISE = 0.5


def convolutions(before: int, after: int) -> nn.Module:
    """Return two convolutions, each with a batch norm: [N, before, H, W] to [N, after, H, W]."""
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(inplace=True),
        nn.Conv2d(after, after, 3, padding=1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    """Images [N, channels, H, W] to a logit for each pixel [N, 1, H, W]; H and W are multiples of 2 ** (depth - 1).

    Args:
        channels: Channels of the images.
        width: Channels at full resolution, doubled at each lower one.
        depth: Number of resolutions.
    """

    def __init__(self, channels: int = 1, width: int = 16, depth: int = 3) -> None:
        super().__init__()
        widths = [width << level for level in range(depth)]
        pairs = list(itertools.pairwise(widths))
        self.first = convolutions(channels, width)
        self.down = nn.ModuleList(convolutions(fine, coarse) for fine, coarse in pairs)
        self.grow = nn.ModuleList(nn.ConvTranspose2d(coarse, fine, 2, stride=2) for fine, coarse in reversed(pairs))
        self.up = nn.ModuleList(convolutions(2 * fine, fine) for fine, _ in reversed(pairs))
        self.last = nn.Conv2d(width, 1, 1)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logit of each pixel."""
        levels = [self.first(images)]
        for down in self.down:
            levels.append(down(functional.max_pool2d(levels[-1], 2)))
        found = levels.pop()
        for grow, up in zip(self.grow, self.up, strict=True):
            found = up(torch.cat((levels.pop(), grow(found)), dim=1))
        scores: Tensor = self.last(found)
        return scores


def batch(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return noisy digits [N, 1, SIZE, SIZE], and masks of the same shape: 1 for ink, else 0."""
    images, _ = resnet.batch(generator)
    return images + NOISE * torch.randn(images.shape, generator=generator), (images > 0.5).to(images.dtype)


FAMILY = training_loop.Family(UNet, batch, functional.binary_cross_entropy_with_logits, training_loop.adamw)


if __name__ == "__main__":
    training_loop.main(FAMILY, __doc__, steps=100)
