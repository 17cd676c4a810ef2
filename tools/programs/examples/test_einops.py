"""einops: patterns as functions and as layers."""

import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce
from programs.beside import agrees, trained
from torch import nn


@agrees()
def test_functions(device: str) -> list[torch.Tensor]:
    x, y = torch.randn(2, 3, 8, 8), torch.randn(8, 5)
    images, weights = x.to(device), y.to(device)
    patches = rearrange(images, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=2)
    packed, shapes = pack([images, images.flatten(2).mean(-1)[..., None, None].expand(-1, -1, 8, 1)], "b c h *")
    reduced = [reduce(images, "b c h w -> b c", how) for how in ("mean", "max", "min", "sum", "prod")]
    return [patches, packed, *unpack(packed, shapes, "b c h *"), *reduced, repeat(images, "b c h w -> b c (h r) w", r=3),
            einsum(images, weights, "b c h w, w d -> b c h d")]  # fmt: skip


def test_layers() -> None:
    def make() -> nn.Module:
        return nn.Sequential(
            Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4),
            EinMix("b n c -> b n d", weight_shape="c d", bias_shape="d", c=48, d=16),
            nn.GELU(),
            Reduce("b n d -> b d", "mean"),
            nn.Linear(16, 3),
        )

    trained(make, torch.randn(2, 3, 16, 16))
