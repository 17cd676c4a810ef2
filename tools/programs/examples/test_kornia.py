"""kornia: filters, colours, geometry, morphology, features, losses, metrics and augmentation of images."""

from collections.abc import Callable
from typing import Any

import kornia
import pytest
import torch
from programs.beside import agree, agrees
from torch import Tensor

IMAGES = torch.rand(2, 3, 32, 40)
MASKS = (torch.rand(2, 1, 32, 40) > 0.6).float()
HOMOGRAPHY = torch.eye(3).repeat(2, 1, 1) + torch.tensor([[0.05, 0.02, 1.5], [-0.03, 0.04, -2.0], [1e-4, 2e-4, 0.0]])
CORNERS = torch.tensor([[[0.0, 0.0], [39.0, 0.0], [39.0, 31.0], [0.0, 31.0]]]).repeat(2, 1, 1)
CAMERA = torch.tensor([[30.0, 0.0, 20.0], [0.0, 30.0, 16.0], [0.0, 0.0, 1.0]]).repeat(2, 1, 1)
KERNEL = torch.ones(3, 3)

COLOURS = ("rgb_to_hsv", "rgb_to_lab", "rgb_to_luv", "rgb_to_yuv", "rgb_to_xyz", "rgb_to_ycbcr", "sepia")
FUNCTIONS: dict[str, Callable[[Tensor], Any]] = {
    "gaussian_blur": lambda x: kornia.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5)),
    "box_blur": lambda x: kornia.filters.box_blur(x, (3, 3)),
    "median_blur": lambda x: kornia.filters.median_blur(x, (3, 3)),
    "bilateral_blur": lambda x: kornia.filters.bilateral_blur(x, (3, 3), 0.1, (1.5, 1.5)),
    "sobel": kornia.filters.sobel,
    "laplacian": lambda x: kornia.filters.laplacian(x, 5),
    "canny": lambda x: kornia.filters.canny(x),
    "spatial_gradient": kornia.filters.spatial_gradient,
    "unsharp_mask": lambda x: kornia.filters.unsharp_mask(x, (3, 3), (1.5, 1.5)),
    "motion_blur": lambda x: kornia.filters.motion_blur(x, 5, 35.0, 0.5),
    "guided_blur": lambda x: kornia.filters.guided_blur(x, x, 5, 0.1),
    "adjust_hue": lambda x: kornia.enhance.adjust_hue(x, 0.3),
    "adjust_saturation": lambda x: kornia.enhance.adjust_saturation(x, 1.5),
    "equalize": lambda x: kornia.enhance.equalize(x),
    "equalize_clahe": lambda x: kornia.enhance.equalize_clahe(x, 20.0, (4, 4)),
    "posterize": lambda x: kornia.enhance.posterize(x, 3),
    "solarize": lambda x: kornia.enhance.solarize(x, 0.5),
    "sharpness": lambda x: kornia.enhance.sharpness(x, 0.5),
    "normalize_min_max": lambda x: kornia.enhance.normalize_min_max(x),
    "warp_perspective": lambda x: kornia.geometry.warp_perspective(x, HOMOGRAPHY.to(x.device), (32, 40)),
    "warp_affine": lambda x: kornia.geometry.warp_affine(x, HOMOGRAPHY[:, :2].to(x.device), (32, 40), padding_mode="border"),
    "rotate": lambda x: kornia.geometry.rotate(x, torch.tensor([30.0, -70.0], device=x.device)),
    "resize": lambda x: kornia.geometry.resize(x, (20, 50), antialias=True),
    "elastic": lambda x: kornia.geometry.elastic_transform2d(x, torch.ones(2, 2, 32, 40, device=x.device) * 0.3, (7, 7)),
    "pyrdown": kornia.geometry.pyrdown,
    "undistort": lambda x: kornia.geometry.calibration.undistort_image(
        x, CAMERA.to(x.device), torch.tensor([[0.1, 0.01, 0.0, 0.0]] * 2, device=x.device)
    ),
    "harris": lambda x: kornia.feature.harris_response(x),
    "gftt": lambda x: kornia.feature.gftt_response(x),
    "hessian": lambda x: kornia.feature.hessian_response(x),
    "patches": lambda x: kornia.contrib.extract_tensor_patches(x, (8, 8), (4, 4)),
    **{name: getattr(kornia.color, name) for name in COLOURS},
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@agrees()
def test_functions_and_their_gradients(device: str, name: str) -> Any:
    images = IMAGES.to(device, copy=True).requires_grad_()
    answer = FUNCTIONS[name](images)
    results = [result for result in (answer if isinstance(answer, (list, tuple)) else [answer]) if result.requires_grad]
    if results:
        torch.stack([result.pow(2).mean() for result in results]).sum().backward()
    return answer, images.grad


@pytest.mark.parametrize("name", ["dilation", "erosion", "opening", "closing", "gradient", "top_hat", "bottom_hat"])
def test_morphology(name: str) -> None:
    agree(lambda device: getattr(kornia.morphology, name)(MASKS.to(device), KERNEL.to(device)))


def test_connected_components_and_distances() -> None:
    agree(lambda device: kornia.contrib.connected_components(MASKS.to(device), 20))
    agree(lambda device: kornia.contrib.distance_transform(MASKS.to(device)))


@agrees(1e-2)
def test_homographies_and_cameras(device: str) -> list[Any]:
    corners, homography, camera = CORNERS.to(device), HOMOGRAPHY.to(device), CAMERA.to(device)
    moved = kornia.geometry.transform_points(homography, corners)
    depth = torch.ones(2, 1, 32, 40, device=device)
    axis = torch.tensor([[0.1, 0.2, -0.3], [0.0, 0.0, 0.0]], device=device)
    return [
        moved,
        kornia.geometry.get_perspective_transform(corners, moved),
        kornia.geometry.find_homography_dlt(corners, moved),
        kornia.geometry.depth_to_3d(depth, camera),
        kornia.geometry.axis_angle_to_rotation_matrix(axis),
        kornia.geometry.axis_angle_to_quaternion(axis),
    ]


@agrees()
def test_losses_and_metrics(device: str) -> list[Tensor]:
    classes = torch.randint(0, 3, (2, 32, 40))
    images, labels = IMAGES.to(device), classes.to(device)
    copies, grey = images.flip(3), images[:, :1]
    return [
        kornia.losses.ssim_loss(images, copies, 5),
        kornia.losses.focal_loss(images, labels, 0.5, 2.0, "mean"),
        kornia.losses.dice_loss(images, labels),
        kornia.losses.tversky_loss(images, labels, 0.5, 0.5),
        kornia.losses.lovasz_softmax_loss(images, labels),
        kornia.losses.total_variation(images),
        kornia.losses.inverse_depth_smoothness_loss(grey, images),
        kornia.losses.psnr_loss(images, copies, 1.0),
        kornia.metrics.mean_iou(labels, labels.flip(1), 3),
        kornia.metrics.confusion_matrix(labels, labels.flip(1), 3),
    ]


AUGMENTATIONS = [
    "RandomHorizontalFlip", "RandomVerticalFlip", "RandomGrayscale", "RandomInvert", "RandomEqualize", "RandomChannelShuffle",
]  # fmt: skip


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_augmentation(name: str) -> None:
    agree(lambda device: getattr(kornia.augmentation, name)(p=1.0)(IMAGES.to(device)))


@pytest.mark.parametrize("p", [0.0, 1.0])
@agrees()
def test_a_sequence_of_augmentations_with_masks(device: str, p: float) -> Any:
    steps = kornia.augmentation.AugmentationSequential(
        kornia.augmentation.RandomAffine((-20.0, 20.0), translate=(0.1, 0.1), p=p),
        kornia.augmentation.ColorJiggle(0.2, 0.2, 0.2, 0.1, p=p),
        kornia.augmentation.RandomErasing(p=p),
        data_keys=["input", "mask"],
    )
    return steps(IMAGES.to(device), MASKS.to(device))
