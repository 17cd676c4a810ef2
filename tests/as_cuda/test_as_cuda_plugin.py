"""The pytest plugin, in runs of pytest of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

TESTS = """\
import pytest, torch
from torch import nn

requires_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

@requires_cuda
def test_training():
    model = nn.Linear(2, 2).cuda()
    model(torch.ones(1, 2, device="cuda")).sum().backward()
    assert model.weight.grad.is_cuda

def test_devices(rustdev_device, device, fake_gpus):
    assert device == rustdev_device == torch.device("cuda")
    assert fake_gpus(2) == [torch.device("cuda:0"), torch.device("cuda:1")]
    with pytest.raises(RuntimeError, match="start pytest with --rustdev-devices=3"):
        fake_gpus(3)

@pytest.mark.rustdev_devices(2)
def test_two(): pass

@pytest.mark.rustdev_devices(3)
def test_three(): pass

def test_late_failure():
    torch.cuda.nvtx.mark("x")
    def fail(): raise ValueError("in a task")
    torch.rustdev.launch_host_func(fail)

def test_after_the_failure():
    assert torch.cuda.get_device_capability() == (7, 0)
"""


def run(directory: Path, *options: str) -> str:
    """Run the plugin's tests with options, and return what pytest says."""
    (directory / "conftest.py").write_text("from torch.cuda import is_available\n")
    (directory / "test_of_a_project.py").write_text(TESTS)
    environment = {key: value for key, value in os.environ.items() if key != "RUSTDEV_DEVICE_COUNT"}
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "rustdev_pytest", "--rootdir", str(directory), *options, str(directory)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=directory, timeout=300, check=False).stdout


def test_tests_for_cuda_run(tmp_path: Path) -> None:
    said = run(tmp_path, "--rustdev-as-cuda", "--rustdev-devices=2", "--rustdev-profile=v100-16g")
    assert "as cuda: 2 x Tesla V100-SXM2-16GB (rustdev" in said
    for name in ("test_training", "test_devices", "test_two", "test_after_the_failure"):
        assert f"PASSED test_of_a_project.py::{name}" in said, said
    assert "takes 3 devices, as with --rustdev-devices=3" in said
    assert "FAILED test_of_a_project.py::test_late_failure" in said
    assert "4 passed, 1 skipped" in said.replace("1 failed, ", "")


def test_without_the_option_nothing_changes(tmp_path: Path) -> None:
    said = run(tmp_path, "-k", "training or two")
    assert "2 skipped" in said
    assert "as cuda" not in said


def test_options_that_cannot_be_followed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import pytest, sys; sys.exit(pytest.main(['-p', 'rustdev_pytest', *sys.argv[1:]]))"]

    def error(*options: str) -> str:
        done = subprocess.run([*command, *options], capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
        assert done.returncode == 4, done.stdout + done.stderr
        return done.stderr

    assert "--rustdev-profile takes --rustdev-as-cuda" in error("--rustdev-profile=t4-16g")
    assert "there is no profile 't5'" in error("--rustdev-as-cuda", "--rustdev-profile=t5")
    command[2] = "import torch\n" + command[2]
    assert "--rustdev-devices comes too late" in error("--rustdev-devices=7")


def test_importing_the_plugin_loads_no_torch() -> None:
    subprocess.run([sys.executable, "-c", "import rustdev_pytest, sys; assert 'torch' not in sys.modules"], check=True)
