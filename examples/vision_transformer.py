"""Trains a small vision transformer on scikit-learn's handwritten digits, enlarged to 32 by 32 pixels.

    python examples/vision_transformer.py [--device rustdev|cpu] [--steps N] [--amp] [--quiet]

The network is that of Dosovitskiy et al., An Image is Worth 16x16 Words (https://arxiv.org/abs/2010.11929): the patches of an image
and a class token attend to each other.
"""

from __future__ import annotations

import torch
import training_loop
from gpt import Block
from resnet import CLASSES, SIZE, batch
from torch import Tensor, nn
from torch.nn import functional


class VisionTransformer(nn.Module):
    """Images [N, channels, side, side] to logits [N, classes].

    Args:
        classes: Number of classes.
        side: Side of the images in pixels.
        channels: Channels of the images.
        patch: Side of a patch in pixels.
        width: Embedding size.
        heads: Number of attention heads.
        layers: Number of blocks.
    """

    def __init__(
        self, classes: int, side: int, channels: int = 3, patch: int = 8, width: int = 96, heads: int = 4, layers: int = 3
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(channels, width, patch, stride=patch)
        self.gathered = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, (side // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(Block(width, heads, is_causal=False) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits of each image."""
        patches = self.patches(images).flatten(2).transpose(1, 2)
        positions = torch.cat((self.gathered.expand(len(images), -1, -1), patches), dim=1) + self.positions
        scores: Tensor = self.head(self.blocks(positions)[:, 0])
        return scores


FAMILY = training_loop.Family(
    lambda: VisionTransformer(CLASSES, SIZE, channels=1), batch, functional.cross_entropy, training_loop.adamw
)


if __name__ == "__main__":
    training_loop.main(FAMILY, __doc__, steps=300)
