"""The effects of `import torch` and `import rustdev`, each in a separate process."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import rustdev
from children import run_fresh as python

PACKAGE = Path(rustdev.__file__).parent
ENTRY_POINTS = "[torch.backends]\nrustdev = rustdev_autoload:load\n"


def test_torch_alone_brings_the_device() -> None:
    program = "import torch; print(torch.ones(2, device='rustdev').device, torch.accelerator.current_accelerator())"
    result = python(program + "; import rustdev; print(torch.rustdev is rustdev)")
    assert result.stdout.split() == ["rustdev:0", "rustdev", "True"], result.stderr
    assert result.stderr == ""


def test_autoload_can_be_turned_off() -> None:
    program = "import torch; print(hasattr(torch, 'rustdev')); import rustdev; print(torch.rustdev is rustdev)"
    result = python(program, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert result.stdout.split() == ["False", "True"], result.stderr


@pytest.mark.slow
def test_rustdev_may_be_imported_first() -> None:
    result = python("import rustdev, torch; print(torch.rustdev is rustdev, rustdev.is_available())")
    assert result.stdout.split() == ["True", "True"], result.stderr
    assert result.stderr == ""


@pytest.fixture
def other_build(tmp_path: Path) -> str:
    """A copy of the installed package whose only shim is for a torch of another minor release."""
    for package in (PACKAGE, PACKAGE.parent / "rustdev_autoload"):
        shutil.copytree(package, tmp_path / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    information = tmp_path / "rustdev-0.1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: rustdev\nVersion: 0.1.0\n")
    (information / "entry_points.txt").write_text(ENTRY_POINTS)
    for shim in (tmp_path / "rustdev/_shim").glob("*.so"):
        shim.rename(shim.with_name(f"2.0-{shim.name.rsplit('-', 1)[1]}"))
    return str(tmp_path)


def test_another_minor_is_refused_in_one_sentence(other_build: str) -> None:
    result = python("import rustdev", PYTHONPATH=other_build, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert result.returncode == 1
    said = result.stderr.splitlines()[-1]
    assert said.startswith("ImportError: rustdev has a shim for torch 2.0, and this is torch 2.")
    assert "`python -m rustdev.build_shim` compiles one" in said


def test_the_command_that_compiles_a_shim_works_where_none_fits(other_build: str) -> None:
    command, environment = [sys.executable, "-m", "rustdev.build_shim", "--help"], os.environ | {"PYTHONPATH": other_build}
    assert "where the library goes" in subprocess.check_output(command, env=environment, text=True, timeout=120)


def test_torch_works_without_a_matching_build(other_build: str) -> None:
    program = """
import torch
torch.manual_seed(0)
print(torch.ones(2).sum().item(), torch.rustdev.is_available(), torch.rustdev.device_count())
try:
    import rustdev
except ImportError as error:
    print("ImportError", error)
"""
    result = python(program, PYTHONPATH=other_build)
    works, refusal = result.stdout.splitlines()
    assert works == "2.0 False 0"
    assert refusal.startswith("ImportError rustdev has a shim for torch 2.0")
    assert "rustdev has a shim for torch 2.0" in result.stderr


USES = """
import torch
for use in (
    "torch.zeros(2, device='rustdev')", "torch.zeros(2).to('rustdev')", "torch.nn.Linear(2, 2).to('rustdev')",
    "torch.rustdev.synchronize()", "torch.rustdev.Stream()", "import rustdev", "import rustdev",
):
    try:
        exec(use)
    except Exception as error:
        print(isinstance(error, ValueError), "not available" in str(error), "RUSTDEV_FOO" in str(error))
"""


@pytest.mark.slow
def test_each_use_and_each_import_says_why_the_device_is_not_there() -> None:
    result = python(USES, RUSTDEV_FOO="1")
    assert result.stdout.splitlines() == ["False True True"] * 5 + ["True False True"] * 2, result.stderr
