"""Trains a small network of depthwise convolutions with the architecture of MobileNetV2 on scikit-learn's handwritten digits.

    python examples/mobilenet.py [--device rustdev|cpu] [--steps N] [--amp] [--quiet]

The blocks are those of Sandler et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks (https://arxiv.org/abs/1801.04381).
"""

from __future__ import annotations

import training_loop
from resnet import CLASSES, batch
from torch import Tensor, nn
from torch.nn import functional


def convolution(before: int, after: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """Return a convolution with "same" padding, and a batch norm."""
    layer = nn.Conv2d(before, after, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
    return [layer, nn.BatchNorm2d(after)]


class InvertedResidual(nn.Module):
    """Inverted residual block: expansion, depthwise convolution, projection.

    [N, before, H, W] to [N, after, H / stride, W / stride].

    Args:
        before: Input channels.
        after: Output channels.
        stride: Stride of the depthwise convolution.
        factor: Expansion factor of the channels.
    """

    def __init__(self, before: int, after: int, stride: int, factor: int) -> None:
        super().__init__()
        wide = before * factor
        self.is_added = stride == 1 and before == after
        self.path = nn.Sequential(
            *convolution(before, wide, 1),
            nn.ReLU6(inplace=True),
            *convolution(wide, wide, 3, stride, groups=wide),
            nn.ReLU6(inplace=True),
            *convolution(wide, after, 1),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Apply the block, with a residual connection if the shapes agree."""
        found: Tensor = self.path(images)
        return images + found if self.is_added else found


class MobileNet(nn.Module):
    """Images [N, channels, H, W] to logits [N, classes].

    Args:
        classes: Number of classes.
        channels: Channels of the images.
        width: Channels of the first block; later blocks have up to five times as many.
    """

    def __init__(self, classes: int, channels: int = 3, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Sequential(*convolution(channels, width, 3, stride=2), nn.ReLU6(inplace=True))
        self.blocks = nn.Sequential(
            InvertedResidual(width, width, 1, factor=1),
            InvertedResidual(width, 2 * width, 2, factor=4),
            InvertedResidual(2 * width, 2 * width, 1, factor=4),
            InvertedResidual(2 * width, 4 * width, 2, factor=4),
            InvertedResidual(4 * width, 4 * width, 1, factor=4),
            *convolution(4 * width, 10 * width, 1),
            nn.Hardswish(),
        )
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(10 * width, classes))

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits of each image."""
        scores: Tensor = self.head(self.blocks(self.stem(images)))
        return scores


FAMILY = training_loop.Family(lambda: MobileNet(CLASSES, channels=1), batch, functional.cross_entropy, training_loop.adamw)


if __name__ == "__main__":
    training_loop.main(FAMILY, __doc__, steps=150)
