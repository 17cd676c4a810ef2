"""vector-quantize-pytorch: quantisers of each kind, with what they learn by averages."""

from typing import Any

import pytest
import torch
import vector_quantize_pytorch as quantizers
from programs.beside import trained
from torch import nn

KINDS: dict[str, dict[str, Any]] = {
    "VectorQuantize": {"dim": 16, "codebook_size": 32, "decay": 0.8},
    "VectorQuantize cosine": {"dim": 16, "codebook_size": 32, "use_cosine_sim": True},
    "VectorQuantize heads": {"dim": 16, "codebook_size": 32, "heads": 2, "separate_codebook_per_head": True, "codebook_dim": 8},
    "VectorQuantize kmeans": {"dim": 16, "codebook_size": 8, "kmeans_init": True, "kmeans_iters": 3},
    "VectorQuantize learned": {"dim": 16, "codebook_size": 32, "learnable_codebook": True, "ema_update": False},
    "VectorQuantize orthogonal": {"dim": 16, "codebook_size": 32, "orthogonal_reg_weight": 10.0, "orthogonal_reg_max_codes": None},
    "VectorQuantize rotation": {"dim": 16, "codebook_size": 32, "rotation_trick": True},
    "ResidualVQ": {"dim": 16, "num_quantizers": 3, "codebook_size": 32},
    "GroupedResidualVQ": {"dim": 16, "num_quantizers": 2, "groups": 2, "codebook_size": 16},
    "FSQ": {"levels": [8, 5, 5], "dim": 16},
    "LFQ": {"codebook_size": 64, "dim": 16, "entropy_loss_weight": 0.1},
    "ResidualFSQ": {"dim": 16, "levels": [5, 5, 3], "num_quantizers": 2},
    "ResidualLFQ": {"dim": 16, "codebook_size": 64, "num_quantizers": 2},
    "SimVQ": {"dim": 16, "codebook_size": 32, "rotation_trick": True},
    "LatentQuantize": {"levels": [5, 5, 8], "dim": 16},
}


@pytest.mark.parametrize("kind", KINDS)
def test_training(kind: str) -> None:
    images = kind == "LatentQuantize"

    def make() -> nn.Module:
        quantizer = getattr(quantizers, kind.split()[0])(**KINDS[kind])
        return nn.ModuleList([nn.Conv2d(16, 16, 1) if images else nn.Linear(16, 16), quantizer])

    x = torch.randn(2, 16, 4, 4) if images else torch.randn(2, 24, 16)
    trained(make, x, call=lambda model, x: model[1](model[0](x)))
