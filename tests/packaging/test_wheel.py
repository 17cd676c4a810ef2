"""The wheel: its content, and that it works when it is unpacked."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OTHER_PYTHONS = ("3.10", "3.11", "3.12", "3.13")

pytestmark = pytest.mark.skipif(not (shutil.which("cargo") and shutil.which("maturin")), reason="building takes cargo and maturin")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this source tree, from the same artifacts as the installed module: with the kernels of this processor alone."""
    directory = tmp_path_factory.mktemp("wheel")
    environment = os.environ | {"VIRTUAL_ENV": sys.prefix}
    command = ["make", "wheel", f"WHEELS={directory}", "WHEEL_FEATURES=native"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=900)
    (wheel,) = directory.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)
    return directory


def test_one_wheel_for_every_python(wheel: Path) -> None:
    assert re.search(r"-cp310-abi3-manylinux_2_\d+_", wheel.name)


def test_contents(unpacked: Path) -> None:
    headers = ("_inductor/kernel.h", "_inductor/include/torch/csrc/inductor/aoti_include/rustdev.h")
    for file in ("__init__.py", "py.typed", "_rustdev.pyi", "_rustdev.abi3.so", *headers):
        assert (unpacked / "rustdev" / file).is_file(), file
    assert (unpacked / "rustdev_autoload/__init__.py").is_file()
    assert (unpacked / "rustdev_conformance/__main__.py").is_file()
    (information,) = unpacked.glob("*.dist-info")
    assert "[torch.backends]" in (information / "entry_points.txt").read_text()
    assert "Apache License" in (information / "licenses/LICENSE").read_text()
    parts = (information / "sboms/rustdev.cdx.json").read_text()
    assert '"pkg:pypi/torch"' in parts
    assert str(ROOT) not in parts
    assert len(list(information.glob("sboms/*"))) == 1
    own = {"rustdev", "_shim"}
    bundled = [file.name for file in unpacked.rglob("*.so*") if file.parent.name not in own]
    assert list(unpacked.glob("rustdev/_shim/*.so")), "a shim for this torch"
    assert {"rustdev.h", "compiled_names.txt"} <= {file.name for file in unpacked.glob("rustdev/_shim/source/*")}, "build_shim's"
    assert bundled == [], "torch's libraries are those of the environment"


def test_the_core_names_nothing_of_torch(unpacked: Path) -> None:
    symbols = subprocess.run(
        ["nm", "-DC", unpacked / "rustdev/_rustdev.abi3.so"], capture_output=True, text=True, check=True
    ).stdout
    assert [line for line in symbols.splitlines() if re.search(r"\b(c10|at|torch)::", line)] == []


def test_works_in_a_fresh_environment(unpacked: Path, tmp_path: Path) -> None:
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    (site_packages,) = environment.glob("lib/python*/site-packages")
    shutil.copytree(unpacked, site_packages, dirs_exist_ok=True)
    (site_packages / "torch.pth").write_text(str(Path(spec.origin).parents[1]))
    program = "import torch; x = torch.arange(4.0, device='rustdev'); print((x * 2).sum().item(), torch.rustdev.__file__)"
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    command = [str(environment / "bin/python"), "-c", program]
    result = subprocess.run(command, env=clean, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert result.stdout.split() == ["12.0", str(site_packages / "rustdev/__init__.py")], result.stderr
    assert result.stderr == ""


def interpreter_of(version: str) -> str | None:
    """A Python of that minor release that runs: on the path, or one of pyenv's, which need not be on it."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [shutil.which(f"python{version}"), *sorted(map(str, pyenv.glob(f"versions/{version}.*/bin/python{version}")))]
    for candidate in filter(None, candidates):
        if subprocess.run([candidate, "--version"], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


@pytest.mark.parametrize("version", OTHER_PYTHONS)
def test_module_loads_in_every_python(unpacked: Path, version: str) -> None:
    interpreter = interpreter_of(version)
    if interpreter is None:
        pytest.skip(f"there is no Python {version} here")
    program = """
import importlib.machinery, importlib.util, sys
loader = importlib.machinery.ExtensionFileLoader("_rustdev", sys.argv[1])
module = importlib.util.module_from_spec(importlib.util.spec_from_loader("_rustdev", loader))
loader.exec_module(module)
print(module.__version__)
"""
    module = str(unpacked / "rustdev/_rustdev.abi3.so")
    result = subprocess.run([interpreter, "-c", program, module], capture_output=True, text=True, check=False, timeout=120)
    assert result.stdout.startswith("0."), result.stderr
