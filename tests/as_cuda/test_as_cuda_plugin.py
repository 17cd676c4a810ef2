"""The pytest plugin, in separate runs of pytest."""

from pathlib import Path

import children
import pytest

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


LOST_MODES = """\
import torch
from torch.testing._internal.common_utils import TestCase

class TestOfItsOwn(TestCase):
    def setUp(self): pass  # and not PyTorch's, which counts the modes

    def test_a(self): assert torch.ones(1, device="cuda").is_cuda

    def test_b(self): assert torch.ones(1, device="cuda").is_cuda

def test_c():
    while torch._C._len_torch_function_stack():
        torch.overrides._pop_mode()
    torch.set_default_device("cpu")

def test_d():
    assert torch.ones(1, device="cuda").is_cuda
    torch._C._set_torch_function_state(torch._C._TorchFunctionState.ALL_DISABLED)

class TestOfPyTorch(TestCase):
    def test_e(self): assert torch.ones(1, device="cuda").is_cuda
"""

OWN_TESTS = """\
import pytest, torch

def test_devices(rustdev_device, device, fake_gpus):
    assert device == rustdev_device == torch.device("rustdev")
    assert fake_gpus(3) == [torch.device("rustdev", index) for index in range(3)]
    assert fake_gpus(1) == [torch.device("rustdev:0")]
    with pytest.raises(RuntimeError, match="start pytest with --rustdev-devices=4"):
        fake_gpus(4)

def test_copies(fake_gpus):
    first, second = fake_gpus(2)
    assert torch.ones(2, device=first).to(second).device == second

@pytest.mark.parametrize("device", ["cpu"])
def test_a_parameter_goes_before_the_fixture(device):
    assert device == "cpu"

@pytest.mark.rustdev_devices(4)
def test_four(): pass

@pytest.mark.rustdev_devices(3)
def test_the_profile():
    assert torch.rustdev.get_device_name().startswith("NVIDIA A100")
    assert torch.rustdev.mem_get_info(2)[1] == 80 << 30
    assert not torch.cuda.is_available()
"""


def run(directory: Path, *options: str, tests: str = TESTS) -> str:
    """Run the plugin's tests with options, and return what pytest says."""
    (directory / "conftest.py").write_text("from torch.cuda import is_available\n")
    (directory / "test_of_a_project.py").write_text(tests)
    arguments = ["-rA", "-p", "rustdev_pytest", "--rootdir", directory, *options, directory]
    return children.python("-m", "pytest", *arguments, directory=directory, RUSTDEV_DEVICE_COUNT="1").stdout


@pytest.mark.slow
def test_tests_for_cuda_run(tmp_path: Path) -> None:
    said = run(tmp_path, "--rustdev-as-cuda", "--rustdev-devices=2", "--rustdev-profile=v100-16g")
    assert "as cuda: 2 x Tesla V100-SXM2-16GB (rustdev" in said
    for name in ("test_training", "test_devices", "test_two", "test_after_the_failure"):
        assert f"PASSED test_of_a_project.py::{name}" in said, said
    assert "takes 3 devices, as with --rustdev-devices=3" in said
    assert "FAILED test_of_a_project.py::test_late_failure" in said
    assert "4 passed, 1 skipped" in said.replace("1 failed, ", "")


@pytest.mark.slow
def test_tests_that_change_the_stack_of_modes(tmp_path: Path) -> None:
    said = run(tmp_path, "--rustdev-as-cuda", tests=LOST_MODES)
    assert "5 passed" in said, said


def test_tests_for_the_device_by_its_own_name(tmp_path: Path) -> None:
    said = run(tmp_path, "--rustdev-devices=3", "--rustdev-profile=a100-80g", "--strict-markers", tests=OWN_TESTS)
    assert "4 passed, 1 skipped" in said, said
    assert "takes 4 devices, as with --rustdev-devices=4" in said
    assert "as cuda" not in said


def test_without_the_option_nothing_changes(tmp_path: Path) -> None:
    said = run(tmp_path, "-k", "training or two")
    assert "2 skipped" in said
    assert "as cuda" not in said


@pytest.mark.slow
def test_options_that_cannot_be_followed(tmp_path: Path) -> None:
    def error(*options: str, first: str = "") -> str:
        program = f"{first}\nimport pytest, sys; sys.exit(pytest.main(['-p', 'rustdev_pytest', *sys.argv[1:]]))"
        done = children.python("-c", program, *options, directory=tmp_path)
        assert done.returncode == 4, done.stdout + done.stderr
        return done.stderr

    assert 'RUSTDEV_PROFILE="t5" is not valid' in error("--rustdev-profile=t5")
    assert "there is no profile 't5'" in error("--rustdev-as-cuda", "--rustdev-profile=t5")
    assert "--rustdev-devices comes too late" in error("--rustdev-devices=7", first="import torch")
    assert "--rustdev-profile comes too late" in error("--rustdev-profile=t4-16g", first="import torch")


def test_importing_the_plugin_loads_no_torch() -> None:
    children.run_fresh("import rustdev_pytest, sys; assert 'torch' not in sys.modules", check=True)
