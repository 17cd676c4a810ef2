"""Trains a ResNet-18 on scikit-learn's handwritten digits, enlarged to 32 by 32 pixels.

    python examples/resnet.py [--device rustdev|cpu] [--steps N] [--amp] [--quiet]

The network is that of He et al., Deep Residual Learning for Image Recognition (https://arxiv.org/abs/1512.03385): eighteen weight
layers, in four stages of two blocks.
"""

from __future__ import annotations

import functools
import itertools

import torch
import training_loop
from digits import Digits
from torch import Tensor, nn
from torch.nn import functional

BATCH, SIZE, CLASSES = 16, 32, 10


class Block(nn.Module):
    """Residual block of two convolutions and a shortcut: [N, before, H, W] to [N, after, H / stride, W / stride].

    Args:
        before: Input channels.
        after: Output channels.
        stride: Stride of the first convolution and of the shortcut.
    """

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.short: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.short = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, images: Tensor) -> Tensor:
        """Add the convolutions and the shortcut."""
        return functional.relu(self.path(images) + self.short(images))


class ResNet18(nn.Module):
    """Images [N, channels, H, W] to logits [N, classes].

    Args:
        classes: Number of classes.
        channels: Channels of the images.
        width: Channels of the first stage, doubled in each later stage. 64 in the paper.
    """

    def __init__(self, classes: int, channels: int = 3, width: int = 64) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(channels, width, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        self.stages = nn.Sequential(
            *(
                nn.Sequential(Block(before, after, 1 if before == after else 2), Block(after, after, 1))
                for before, after in itertools.pairwise(widths)
            )
        )
        self.head = nn.Linear(8 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits of each image."""
        scores: Tensor = self.head(self.stages(self.stem(images)).mean(dim=(2, 3)))
        return scores


@functools.cache
def digits() -> Digits:
    """Return the data set on the CPU."""
    return Digits.load("cpu")


def batch(generator: torch.Generator, count: int = BATCH, size: int = SIZE) -> tuple[Tensor, Tensor]:
    """Return random digits: images [count, 1, size, size] and labels [count]."""
    data = digits()
    chosen = torch.randint(len(data.train_labels), (count,), generator=generator)
    images = functional.interpolate(data.train_images[chosen], size=(size, size), mode="bilinear", align_corners=False)
    return images, data.train_labels[chosen]


def sgd(network: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer of the paper."""
    return torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)


FAMILY = training_loop.Family(lambda: ResNet18(CLASSES, channels=1), batch, functional.cross_entropy, sgd)


if __name__ == "__main__":
    training_loop.main(FAMILY, __doc__, steps=60)
