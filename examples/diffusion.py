"""Trains a denoising diffusion model on handwritten digits, then samples some digits and prints them.

    python examples/diffusion.py [--device rustdev|cpu] [--steps N] [--amp] [--quiet]

Training follows Ho et al., Denoising Diffusion Probabilistic Models (https://arxiv.org/abs/2006.11239), with the cosine schedule of
Nichol and Dhariwal (https://arxiv.org/abs/2102.09672). Sampling takes fewer steps, as in Song et al., Denoising Diffusion Implicit
Models (https://arxiv.org/abs/2010.02502).
"""

from __future__ import annotations

import itertools
import math

import resnet
import torch
import training_loop
from torch import Tensor, nn
from torch.nn import functional

SIZE, BATCH = 8, 64
#: Number of diffusion steps from an image to noise.
STEPS = 200
INK = " .:-=+*#%@"


def kept(times: Tensor) -> Tensor:
    """Return the remaining fraction of the signal (alpha bar) at some times, by the cosine schedule: from nearly 1 to nearly 0."""
    return torch.cos((times / STEPS + 0.008) / 1.008 * (math.pi / 2)).square().clamp(1e-4, 0.9999)


class Denoiser(nn.Module):
    """Residual convolutions, conditioned on the time: images [N, 1, H, W] and times [N] to the noise in the images.

    Args:
        width: Number of channels.
        layers: Number of residual layers.
    """

    def __init__(self, width: int = 48, layers: int = 4) -> None:
        super().__init__()
        self.width = width
        self.first, self.last = nn.Conv2d(1, width, 3, padding=1), nn.Conv2d(width, 1, 3, padding=1)
        self.times = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width * layers))
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.GroupNorm(8, width),
                nn.SiLU(),
                nn.Conv2d(width, width, 3, padding=1),
                nn.GroupNorm(8, width),
                nn.SiLU(),
                nn.Conv2d(width, width, 3, padding=1),
            )
            for _ in range(layers)
        )

    def waves(self, times: Tensor) -> Tensor:
        """Return the sinusoidal embedding of times: [N] to [N, width]."""
        rates = torch.exp(torch.arange(self.width // 2, device=times.device, dtype=times.dtype) * (-8 * math.log(2) / self.width))
        angles = times[:, None] * rates
        return torch.cat((angles.sin(), angles.cos()), dim=1)

    def forward(self, images: Tensor, times: Tensor) -> Tensor:
        """Predict the noise."""
        shifts = self.times(self.waves(times)).chunk(len(self.layers), dim=1)
        found = self.first(images)
        for layer, shift in zip(self.layers, shifts, strict=True):
            found = found + layer(found + shift[:, :, None, None])
        noise: Tensor = self.last(functional.silu(found))
        return noise


class Diffusion(nn.Module):
    """Adds noise to images, and predicts the noise.

    Args:
        denoiser: Predicts the noise in images [N, 1, H, W] at times [N].
    """

    def __init__(self, denoiser: nn.Module) -> None:
        super().__init__()
        self.denoiser = denoiser

    def forward(self, images: Tensor, times: Tensor, noise: Tensor) -> Tensor:
        """Return the noise that the denoiser predicts for images with added noise [N, 1, H, W] at times [N]."""
        share = kept(times)[:, None, None, None]
        found: Tensor = self.denoiser(share.sqrt() * images + (1 - share).sqrt() * noise, times)
        return found

    @torch.no_grad()
    def draw(self, noise: Tensor, steps: int) -> Tensor:
        """Sample images between -1 and 1 from noise [N, 1, H, W] in ``steps`` steps."""
        times = torch.linspace(STEPS, 0, steps + 1, dtype=noise.dtype, device=noise.device)
        images = noise
        for time, after in itertools.pairwise(times):
            share, share_after = kept(time), kept(after)
            found = self.denoiser(images, time.expand(len(images)))
            clean = ((images - (1 - share).sqrt() * found) / share.sqrt()).clamp(-1, 1)
            images = share_after.sqrt() * clean + (1 - share_after).sqrt() * found
        return images


def batch(generator: torch.Generator) -> tuple[Tensor, ...]:
    """Return digits between -1 and 1, times and noise, and the noise as target."""
    images, _ = resnet.batch(generator, BATCH, SIZE)
    times = torch.randint(1, STEPS + 1, (BATCH,), generator=generator).to(images.dtype)
    noise = torch.randn(images.shape, generator=generator)
    return 2 * images - 1, times, noise, noise


def show(images: Tensor) -> str:
    """Return images [N, 1, H, W] between -1 and 1 as text, next to each other."""
    levels = ((images[:, 0] + 1) / 2 * (len(INK) - 1)).round().clamp(0, len(INK) - 1).long().cpu()
    return "\n".join(
        "   ".join("".join(2 * INK[level] for level in row) for row in rows) for rows in levels.transpose(0, 1).tolist()
    )


FAMILY = training_loop.Family(
    lambda: Diffusion(Denoiser()),
    batch,
    functional.mse_loss,
    lambda network: torch.optim.AdamW(network.parameters(), lr=2e-3),
)


def main() -> None:
    """Train, sample digits and print them."""
    network = training_loop.main(FAMILY, __doc__, steps=500)
    assert isinstance(network, Diffusion)
    noise = torch.randn(6, 1, SIZE, SIZE, device=next(network.parameters()).device)
    print(show(network.draw(noise, 50)))


if __name__ == "__main__":
    main()
