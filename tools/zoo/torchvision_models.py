"""Models of torchvision for small images and videos: classification, segmentation, detection."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn
from torchvision import models as zoo

#: Classifiers, with the size of their images.
CLASSIFIERS = {
    "alexnet": 64, "vgg11_bn": 32, "resnet18": 64, "resnext50_32x4d": 64, "wide_resnet50_2": 64, "densenet121": 64, "googlenet": 64,
    "squeezenet1_1": 64, "mobilenet_v2": 64, "mobilenet_v3_small": 64, "shufflenet_v2_x0_5": 64, "mnasnet0_5": 64,
    "efficientnet_b0": 64, "efficientnet_v2_s": 64, "regnet_y_400mf": 64, "convnext_tiny": 64, "swin_t": 64, "swin_v2_t": 64,
}  # fmt: skip
FILMS = ("r3d_18", "mc3_18", "r2plus1d_18", "swin3d_t")
SEGMENTATION = ("fcn_resnet50", "deeplabv3_resnet50", "lraspp_mobilenet_v3_large")
DETECTION = ("fasterrcnn_mobilenet_v3_large_320_fpn", "maskrcnn_resnet50_fpn", "retinanet_resnet50_fpn", "fcos_resnet50_fpn")


def boxes() -> list[dict[str, torch.Tensor]]:
    """Return detection targets for two images of 64 x 64 pixels."""
    corners = torch.tensor([[4.0, 4.0, 40.0, 40.0], [10.0, 12.0, 60.0, 50.0]])
    masks = torch.randint(0, 2, (2, 2, 64, 64), dtype=torch.uint8)
    return [{"boxes": corners, "labels": torch.tensor([1, 2]), "masks": masks[image]} for image in range(2)]


def without_chance(model: nn.Module) -> nn.Module:
    """Return the model in training mode without dropout: the random numbers of the devices differ."""
    for module in model.train().modules():
        if "Dropout" in type(module).__name__ or "StochasticDepth" in type(module).__name__:
            setattr(module, "p", 0.0)  # noqa: B010 - no type of module has it
        sampler = getattr(module, "fg_bg_sampler", None)
        if sampler is not None:
            sampler.batch_size_per_image = 1_000_000
    return model


def models() -> Iterator[tuple[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]]]:
    """Yield the name of each model and a function that makes the model and its inputs."""

    def classifier(name: str, *sizes: int) -> tuple[nn.Module, tuple[Any, ...]]:
        return without_chance(zoo.get_model(name, weights=None, num_classes=10)), (torch.randn(2, 3, *sizes),)

    def segmentation(name: str) -> tuple[nn.Module, tuple[Any, ...]]:
        made = zoo.get_model(name, weights=None, weights_backbone=None, num_classes=4)
        return without_chance(made), (torch.randn(2, 3, 64, 64),)

    def detection(name: str) -> tuple[nn.Module, tuple[Any, ...]]:
        made = zoo.get_model(name, weights=None, weights_backbone=None, num_classes=4, min_size=64, max_size=64)
        return without_chance(made), ([torch.rand(3, 64, 64), torch.rand(3, 64, 64)], boxes())

    for name, size in CLASSIFIERS.items():
        yield name, partial(classifier, name, size, size)
    for name in FILMS:
        yield name, partial(classifier, name, 8, 32, 32)
    for name in SEGMENTATION:
        yield name, partial(segmentation, name)
    for name in DETECTION:
        yield name, partial(detection, name)
