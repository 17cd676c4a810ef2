"""rotary-embedding-torch: rotation of queries and keys, on lines and on grids, with lengths beyond those of training."""

from typing import Any

import pytest
import torch
from programs.beside import agrees, trained
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb
from torch import Tensor, nn

QUERIES, KEYS = torch.randn(1, 4, 24, 32), torch.randn(1, 4, 24, 32)


class Attention(nn.Module):
    """Attention with rotated queries and keys."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        self.layer, self.rotary = nn.Linear(32, 96), RotaryEmbedding(dim=16, **options)

    def forward(self, x: Tensor) -> Tensor:
        queries, keys, values = self.layer(x).chunk(3, -1)
        if self.rotary.use_xpos:
            queries, keys = self.rotary.rotate_queries_and_keys(queries, keys)
        else:
            queries, keys = self.rotary.rotate_queries_or_keys(queries), self.rotary.rotate_queries_or_keys(keys)
        return nn.functional.scaled_dot_product_attention(queries, keys, values)


OPTIONS = [{}, {"learned_freq": True}, {"use_xpos": True}, {"interpolate_factor": 2.0}, {"theta_rescale_factor": 2.0}]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "".join(options))
def test_training(options: dict[str, Any]) -> None:
    trained(lambda: Attention(**options), QUERIES)


@agrees()
def test_grids(device: str) -> Tensor:
    images = torch.randn(1, 6, 8, 64)
    rotary = RotaryEmbedding(dim=16, freqs_for="pixel", max_freq=256).to(device)
    return apply_rotary_emb(rotary.get_axial_freqs(6, 8), images.to(device))


@agrees()
def test_cached_keys(device: str) -> tuple[Tensor, Tensor]:
    rotary = RotaryEmbedding(dim=16).to(device)
    return rotary.rotate_queries_with_cached_keys(QUERIES[:, :, -1:].to(device), KEYS.to(device))
