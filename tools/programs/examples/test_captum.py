"""captum: attributions of a small convolutional network's answers to its inputs, layers and neurons."""

from typing import Any

import pytest
import torch
from captum import attr
from programs.beside import agrees
from torch import Tensor, nn

IMAGES, BASELINES = torch.rand(2, 3, 12, 12), torch.zeros(2, 3, 12, 12)
INPUTS: dict[str, dict[str, Any]] = {
    "IntegratedGradients": {"n_steps": 10},
    "Saliency": {},
    "InputXGradient": {},
    "DeepLift": {},
    "GuidedBackprop": {},
    "Deconvolution": {},
    "FeatureAblation": {"perturbations_per_eval": 8},
    "Occlusion": {"sliding_window_shapes": (3, 4, 4), "strides": (3, 4, 4)},
    "GradientShap": {"baselines": BASELINES, "n_samples": 4},
    "DeepLiftShap": {"baselines": BASELINES},
    "KernelShap": {"feature_mask": True, "n_samples": 20},
    "Lime": {"feature_mask": True, "n_samples": 20},
    "ShapleyValueSampling": {"feature_mask": True, "n_samples": 3},
    "FeaturePermutation": {"feature_mask": True},
}


def network() -> nn.Sequential:
    """Return the network, in evaluation."""
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 10)
    ).eval()


@pytest.mark.parametrize("name", INPUTS)
@agrees()
def test_inputs(device: str, name: str) -> Tensor:
    options = {key: value.to(device) if isinstance(value, Tensor) else value for key, value in INPUTS[name].items()}
    if "feature_mask" in options:
        cells = torch.arange(9, device=device).view(3, 3)
        options["feature_mask"] = cells.repeat_interleave(4, 0).repeat_interleave(4, 1).repeat(1, 3, 1, 1)
    images = IMAGES.to(device, copy=True).requires_grad_()
    model = network().to(device)
    return getattr(attr, name)(model).attribute(images, target=3, **options)


@agrees()
def test_relevance_by_layers(device: str) -> Tensor:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 10, 5)).eval()
    return attr.LRP(model.to(device)).attribute(IMAGES.to(device, copy=True).requires_grad_(), target=(3, 0, 0))


LAYERS = (
    "LayerActivation", "LayerConductance", "LayerGradCam", "LayerIntegratedGradients", "LayerGradientXActivation",
    "InternalInfluence",
)  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
@agrees()
def test_layers(device: str, name: str) -> Any:
    model = network().to(device)
    options = {} if name == "LayerActivation" else {"target": 3}
    return getattr(attr, name)(model, model[3]).attribute(IMAGES.to(device, copy=True).requires_grad_(), **options)


@agrees()
def test_neurons_and_noise(device: str) -> list[Any]:
    model, images = network().to(device), IMAGES.to(device, copy=True).requires_grad_()
    noisy = attr.NoiseTunnel(attr.Saliency(model)).attribute(images, nt_samples=3, target=3)
    return [attr.NeuronGradient(model, model[3]).attribute(images, (2, 1, 1)), noisy]
