"""The package of a backend with its own device name: what is written, what is refused, and who is loaded with torch."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest
import rustdev_autoload
from children import python, run
from rustdev import _rustdev, new_backend


def test_the_package_has_the_name_everywhere(tmp_path: Path) -> None:
    written = new_backend.write("blue_chip", tmp_path / "package", crate=Path("/somewhere/rustdev"))
    names = {path.relative_to(tmp_path / "package").as_posix() for path in written}
    assert {"Cargo.toml", "Makefile", ".gitignore", ".github/workflows/test.yml", "src/lib.rs"} < names
    assert {"python/blue_chip/__init__.py", "tests/test_blue_chip.py"} < names
    texts = "".join(path.read_text() for path in written)
    assert not re.search("mychip|MYCHIP|@", texts.replace("actions/checkout@v5", "").replace("actions/setup-python@v6", ""))
    assert "BLUE_CHIP_FALLBACK" in texts
    manifest = (tmp_path / "package/Cargo.toml").read_text()
    assert f'version = "{_rustdev.__version__}"' in manifest
    assert 'rustdev = { path = "/somewhere/rustdev" }' in manifest
    assert all(compile(path.read_text(), path, "exec") for path in written if path.suffix == ".py")
    new_backend.write("mychip", tmp_path / "mychip")
    assert "patch.crates-io" not in (tmp_path / "mychip/Cargo.toml").read_text(), "without a checkout it takes the release"


def test_the_page_shows_what_the_package_has(tmp_path: Path) -> None:
    written = "\n".join(textwrap.dedent(path.read_text()) for path in new_backend.write("mychip", tmp_path / "mychip"))
    lines = {line.strip() for line in written.splitlines()}
    page = (Path(__file__).parents[2] / "docs/own-backend.md").read_text()
    for language, least in (("rust", 10), ("python", 20)):
        blocks = re.findall(rf"^```{language}[^\n]*\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        shown = [line.strip() for block in blocks for line in block.splitlines() if line.strip()]
        assert [line for line in shown if line not in lines] == []
        assert len(shown) > least


@pytest.mark.parametrize("name", ["", "MyChip", "9chip", "my-chip", "../chip", "cuda", "cpu", "rustdev", "torch"])
def test_names_that_no_device_can_have_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(name))):
        new_backend.write(name, tmp_path / "package")
    assert not (tmp_path / "package").exists()


def test_the_command_overwrites_nothing(tmp_path: Path) -> None:
    written = python("-m", "rustdev.new_backend", "mychip", directory=tmp_path)
    assert written.stdout == "wrote 12 files; now: cd mychip && make test\n"
    again = python("-m", "rustdev.new_backend", "mychip", directory=tmp_path)
    assert (again.returncode, again.stderr) == (1, "new_backend: [Errno 17] File exists: 'mychip'\n")


def test_a_second_device_in_a_process_is_refused() -> None:
    with pytest.raises(ImportError, match="one extension device at a time, and it is rustdev already"):
        rustdev_autoload.register(ModuleType("_mychip"))


def install(directory: Path, name: str, body: str) -> None:
    """Make a package of a backend, as pip would install it."""
    (directory / f"{name}.py").write_text(body)
    about = directory / f"{name}-0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\n")
    (about / "entry_points.txt").write_text(f"[rustdev.backends]\n{name} = {name}\n")


def torch_with(installed: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program that imports torch beside installed packages."""
    command, environment = [sys.executable, "-c", f"import sys, torch; {program}"], {"PYTHONPATH": str(installed)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_torch_loads_the_installed_backend_in_the_place_of_rustdevs_device(tmp_path: Path) -> None:
    install(tmp_path, "mychip", "print('mychip is loaded')\n")
    ended = torch_with(tmp_path, "print('rustdev' in sys.modules, hasattr(torch, 'rustdev'))")
    assert ended.stdout == "mychip is loaded\nFalse False\n", ended.stderr


@pytest.mark.slow
def test_two_installed_backends_are_named(tmp_path: Path) -> None:
    for name in ("mychip", "other"):
        install(tmp_path, name, "raise AssertionError\n")
    ended = torch_with(tmp_path, "torch.zeros(1, device='mychip')")
    why = "torch holds one extension device at a time, and several are installed: mychip, other"
    assert f"the device mychip is not available: {why}" in ended.stderr
    assert ended.returncode == 1


def test_a_program_finds_no_kernels_of_hardware() -> None:
    assert run("import torch; print(torch.rustdev.hardware_kernels())").stdout == "{}\n"
