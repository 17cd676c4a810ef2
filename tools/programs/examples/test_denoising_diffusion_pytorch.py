"""denoising-diffusion-pytorch: the loss of each objective, and sampling, for images and for series."""

from typing import Any

import pytest
import torch
from denoising_diffusion_pytorch import GaussianDiffusion, GaussianDiffusion1D, Unet, Unet1D
from programs.beside import agree, trained

IMAGES, SERIES = torch.rand(2, 3, 16, 16), torch.rand(2, 4, 32)


def images(objective: str = "pred_v", steps: int = 4) -> Any:
    """Return a small model of images."""
    network = Unet(dim=16, dim_mults=(1, 2), flash_attn=False, attn_heads=2, attn_dim_head=8)
    return GaussianDiffusion(network, image_size=16, timesteps=10, sampling_timesteps=steps, objective=objective)


@pytest.mark.parametrize("objective", ["pred_noise", "pred_x0", "pred_v"])
def test_training_on_images(objective: str) -> None:
    trained(lambda: images(objective), IMAGES)


def test_training_on_series() -> None:
    make = lambda: GaussianDiffusion1D(Unet1D(dim=16, dim_mults=(1, 2), channels=4), seq_length=32, timesteps=10)  # noqa: E731
    trained(make, SERIES)


@pytest.mark.parametrize("steps", [4, 10])
def test_sampling(steps: int) -> None:
    torch.manual_seed(0)
    model = images(steps=steps).eval()
    agree(lambda device: model.to(device).sample(batch_size=2), 1e-2)
