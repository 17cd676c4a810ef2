"""Libraries that work unchanged with tensors of any device: torchvision and safetensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import safetensors
import torch
import torchvision
from safetensors.torch import load_file, load_model, save_file, save_model
from torch import nn
from torchvision import tv_tensors
from torchvision.transforms import v2

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("device", ["rustdev", "rustdev:1", 1, torch.device("rustdev:1")], ids=str)
def test_safetensors(device: Any, tmp_path: Path) -> None:
    tensors = {"a": torch.randn(3, 4, device="rustdev:1"), "b": torch.arange(5, device="rustdev:1").to(torch.bfloat16)}
    save_file(tensors, tmp_path / "file.safetensors", metadata={"made": "here"})
    loaded = load_file(tmp_path / "file.safetensors", device=device)
    index = 0 if device == "rustdev" else 1
    assert {tensor.device for tensor in loaded.values()} == {torch.device("rustdev", index)}
    assert all(torch.equal(loaded[name].cpu(), tensors[name].cpu()) for name in tensors)
    assert {tensor.device.type for tensor in load_file(tmp_path / "file.safetensors").values()} == {"cpu"}


def test_safetensors_of_models(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to("rustdev")
    save_model(model, str(tmp_path / "model.safetensors"))
    other = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to("rustdev")
    load_model(other, str(tmp_path / "model.safetensors"), device="rustdev")
    assert all(torch.equal(other.state_dict()[name], value) for name, value in model.state_dict().items())
    with safetensors.safe_open(tmp_path / "model.safetensors", framework="pt", device=1) as file:
        assert file.get_slice("0.weight")[:, 1:].device == torch.device("rustdev:1")


def test_safetensors_of_a_device_that_does_not_exist(tmp_path: Path) -> None:
    save_file({"a": torch.ones(1)}, tmp_path / "file.safetensors")
    with pytest.raises(RuntimeError, match="invalid device ordinal 7"):
        load_file(tmp_path / "file.safetensors", device="rustdev:7")


@pytest.mark.parametrize(
    "transform",
    [
        v2.Resize((20, 17)),
        v2.Resize(9, antialias=True),
        v2.CenterCrop(12),
        v2.Pad(3, padding_mode="reflect"),
        v2.RandomHorizontalFlip(1.0),
        v2.Normalize([0.4, 0.5, 0.6], [0.2, 0.2, 0.3]),
        v2.GaussianBlur(5, sigma=1.0),
        v2.Grayscale(3),
        v2.ColorJitter((1.3, 1.3), (0.7, 0.7), (1.2, 1.2), (0.1, 0.1)),
        v2.RandomAffine((20, 20), translate=None, scale=(0.8, 0.8), interpolation=v2.InterpolationMode.BILINEAR),
        v2.RandomPerspective(0.4, 1.0),
        v2.RandomInvert(1.0),
        v2.RandomSolarize(0.5, 1.0),
        v2.RandomAdjustSharpness(2.0, 1.0),
        v2.ToDtype(torch.uint8, scale=True),
    ],
    ids=lambda transform: type(transform).__name__,
)
def test_transforms(transform: nn.Module) -> None:
    image = torch.rand(2, 3, 24, 31)
    torch.manual_seed(1)  # the transforms draw their parameters on the CPU
    wanted = transform(image)
    torch.manual_seed(1)
    result = transform(image.to("rustdev"))
    assert result.device.type == "rustdev"
    torch.testing.assert_close(result.cpu(), wanted, rtol=1e-3, atol=1e-3 if wanted.is_floating_point() else 1)


def test_transforms_of_boxes_and_masks() -> None:
    boxes = tv_tensors.BoundingBoxes(torch.tensor([[2.0, 3.0, 10.0, 12.0]]), format="XYXY", canvas_size=(24, 31), device="rustdev")
    sample = {"image": tv_tensors.Image(torch.rand(3, 24, 31, device="rustdev")), "boxes": boxes,
              "mask": tv_tensors.Mask(torch.ones(24, 31, dtype=torch.uint8, device="rustdev"))}  # fmt: skip
    result = v2.Compose([v2.RandomHorizontalFlip(1.0), v2.Resize((48, 62))])(sample)
    assert {value.device.type for value in result.values()} == {"rustdev"}
    assert isinstance(result["boxes"], tv_tensors.BoundingBoxes)
    assert result["boxes"].tolist() == [[42.0, 6.0, 58.0, 24.0]]


def test_operators_of_torchvision() -> None:
    boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [1.0, 1.0, 10.0, 10.0], [20.0, 20.0, 30.0, 30.0]])
    scores = torch.tensor([0.9, 0.8, 0.7])
    kept = torchvision.ops.nms(boxes.to("rustdev"), scores.to("rustdev"), 0.5)
    assert kept.device.type == "rustdev"
    assert kept.tolist() == [0, 2]
    images = torch.randn(1, 2, 32, 32)
    wanted = torchvision.ops.roi_align(images, [boxes], 3)
    result = torchvision.ops.roi_align(images.to("rustdev"), [boxes.to("rustdev")], 3)
    torch.testing.assert_close(result.cpu(), wanted)
