"""torchvision: models for small images and videos, in training: classification, segmentation, detection."""

from typing import Any

import pytest
import torch
from programs.beside import trained
from torchvision import models

#: Classifiers of images.
CLASSIFIERS = (
    "alexnet", "vgg11_bn", "resnet18", "resnext50_32x4d", "wide_resnet50_2", "densenet121", "googlenet", "squeezenet1_1",
    "mobilenet_v2", "mobilenet_v3_small", "shufflenet_v2_x0_5", "mnasnet0_5", "efficientnet_b0", "efficientnet_v2_s",
    "regnet_y_400mf", "convnext_tiny", "swin_t", "swin_v2_t",
)  # fmt: skip
FILMS = ("r3d_18", "mc3_18", "r2plus1d_18", "swin3d_t")
SEGMENTATION = ("fcn_resnet50", "deeplabv3_resnet50", "lraspp_mobilenet_v3_large")
DETECTION = ("fasterrcnn_mobilenet_v3_large_320_fpn", "maskrcnn_resnet50_fpn", "retinanet_resnet50_fpn", "fcos_resnet50_fpn")


def check(name: str, *inputs: Any, **options: Any) -> None:
    """Train a model one step, in float64: batch norm of two small images amplifies rounding errors."""
    trained(lambda: models.get_model(name, weights=None, **options).double(), *inputs)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(name: str) -> None:
    check(name, torch.randn(2, 3, 64, 64).double(), num_classes=10)


@pytest.mark.parametrize("name", FILMS)
def test_classifiers_of_videos(name: str) -> None:
    check(name, torch.randn(2, 3, 8, 32, 32).double(), num_classes=10)


@pytest.mark.parametrize("name", SEGMENTATION)
def test_segmentation(name: str) -> None:
    check(name, torch.randn(2, 3, 64, 64).double(), weights_backbone=None, num_classes=4)


@pytest.mark.parametrize("name", DETECTION)
def test_detection(name: str) -> None:
    corners = torch.tensor([[4.0, 4.0, 40.0, 40.0], [10.0, 12.0, 60.0, 50.0]]).double()
    masks = torch.randint(0, 2, (2, 2, 64, 64), dtype=torch.uint8)
    targets = [{"boxes": corners, "labels": torch.tensor([1, 2]), "masks": masks[image]} for image in range(2)]
    images = [torch.rand(3, 64, 64).double() for _ in range(2)]
    check(name, images, targets, weights_backbone=None, num_classes=4, min_size=64, max_size=64)
