"""Operators outside the namespace aten that have only a CPU kernel, from C++ or Python, on the device."""

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from comparison import assert_same

SUPPRESSION = Path(__file__).with_name("nms.cpp")
BOXES = torch.tensor([[0.0, 0, 10, 10], [1, 1, 10, 10], [20, 20, 30, 30], [0, 0, 9, 9], [50, 50, 51, 52]])
SCORES = torch.tensor([0.5, 0.9, 0.3, 0.8, 0.1])


def on_device() -> tuple[torch.Tensor, torch.Tensor]:
    """Return boxes and scores on the device."""
    return BOXES.to("rustdev"), SCORES.to("rustdev")


@pytest.fixture(scope="module")
def suppression() -> Callable[..., torch.Tensor]:
    """Compile an operator that has a CPU kernel and no other; the library is kept for the next run."""
    key = hashlib.sha256(SUPPRESSION.read_bytes() + torch.__version__.encode()).hexdigest()[:16]
    library = Path(__file__).parents[2] / "target/tests" / f"nms-{key}.so"
    if not library.exists():
        root = Path(torch.__file__).parent
        library.parent.mkdir(parents=True, exist_ok=True)
        compiler = os.environ.get("CXX", "c++").split()
        options = ["-std=c++20", "-shared", "-fPIC", "-w", f"-I{root / 'include'}", f"-L{root / 'lib'}"]
        subprocess.run([*compiler, *options, str(SUPPRESSION), "-o", str(library), "-ltorch_cpu", "-lc10"], check=True)
    torch.ops.load_library(str(library))
    return torch.ops.rustdev_tests_cpp.nms


def test_cpp_operator_with_a_cpu_kernel_alone(suppression: Callable[..., torch.Tensor]) -> None:
    expected = suppression(BOXES, SCORES, 0.5)
    assert expected.tolist() == [1, 2, 4]
    torch.rustdev.reset_fallback_stats()
    found = suppression(*on_device(), 0.5)
    assert_same(found, expected)
    assert torch.rustdev.fallback_stats()["rustdev_tests_cpp::nms"].calls == 1
    with pytest.raises(RuntimeError, match="same device"):
        suppression(on_device()[0], SCORES, 0.5)


def test_torchvision() -> None:
    vision = pytest.importorskip("torchvision", reason="runs where torchvision is installed")
    assert vision.ops.nms(*on_device(), 0.5).tolist() == [1, 2, 4]
    x, rois = torch.randn(1, 2, 16, 16), torch.tensor([[0.0, 1, 1, 9, 9]])
    assert_same(vision.ops.roi_align(x.to("rustdev"), rois.to("rustdev"), (3, 3)), vision.ops.roi_align(x, rois, (3, 3)))


def test_python_operator_with_a_cpu_kernel_alone() -> None:
    @torch.library.custom_op("rustdev_tests::flip_rows", mutates_args=(), device_types="cpu")
    def flip_rows(x: torch.Tensor) -> torch.Tensor:
        assert x.device.type == "cpu"
        return torch.from_numpy(x.numpy()[::-1].copy())

    x = torch.randn(3, 2)
    assert_same(flip_rows(x.to("rustdev")), x.flip(0))
