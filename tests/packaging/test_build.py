"""The build script: what it says when something is missing, and what it compiles again when something changes.

It runs in a crate of its own under target/, with a torch and a C++ compiler that are only pretended: no second of a test goes into
compiling, and every compilation is counted.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MANIFEST = """
[package]
name = "rustdev"
version = "0.1.0"
edition = "2024"
build = "build.rs"
[features]
shim = ["dep:cc"]
[build-dependencies]
cc = { version = "1", optional = true }
[workspace]
"""
COMPILER = """#!/bin/sh
# Writes an object and the list of the files read, and notes which source it compiled.
for last; do case "$last" in *.cpp) source=$last ;; *.o) object=$last ;; esac; done
case "$*" in *-MMD*) ;; *) exit 0 ;; esac
case "$source" in *broken.cpp) echo "broken.cpp:1: error: as it says" >&2; exit 1 ;; esac
echo "$source" >> compiled
echo object > "$object"
echo "$object: $source shim/common.h" > "${object%.o}.d"
"""

pytestmark = pytest.mark.skipif(shutil.which("cargo") is None, reason="building takes cargo")


class Crate:
    """A crate with the project's build script, two C++ files, and a Python with a pretended torch."""

    def __init__(self, directory: Path) -> None:
        """Lays the crate out.

        Args:
            directory: where it goes; what it holds is removed.
        """
        self.directory = directory
        self.torch = directory / "site/torch"
        shutil.rmtree(directory, ignore_errors=True)
        for source in ("shim/first.cpp", "shim/ops/second.cpp", "shim/common.h", "src/lib.rs", "Cargo.toml", "c++"):
            self.write(source, "")
        self.write("Cargo.toml", MANIFEST)
        self.write("c++", COMPILER).chmod(0o755)
        shutil.copy(ROOT / "build.rs", directory)
        shutil.copytree(ROOT / "build", directory / "build")
        self.write("src/operators/compiled_names.rs", (ROOT / "src/operators/compiled_names.rs").read_text())
        shutil.copy(ROOT / "Cargo.lock", directory)
        self.install_torch("2.15.0")

    def write(self, path: str, text: str) -> Path:
        """Writes a file, with a modification time that differs from every earlier one."""
        file = self.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        time.sleep(0.01)
        file.write_text(text)
        return file

    def install_torch(self, version: str) -> None:
        """Puts a torch of that version where the crate's Python finds it first."""
        self.write("site/torch/__init__.py", "")
        self.write("site/torch/version.py", f"__version__ = '{version}'\n")

    def build(self, **environment: str) -> str:
        """Runs the build script as cargo does; returns what cargo prints."""
        defaults = {"PYO3_PYTHON": sys.executable, "PYTHONPATH": str(self.directory / "site"), "CXX": str(self.directory / "c++")}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("CARGO")}
        command = ["cargo", "check", "--features", "shim", "--target-dir", str(ROOT / "target/packaging/target")]
        environment = inherited | defaults | environment
        result = subprocess.run(
            command, cwd=self.directory, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        return result.stderr

    def compiled(self) -> list[str]:
        """The sources compiled since the last call."""
        log = self.directory / "compiled"
        sources = sorted(log.read_text().split()) if log.exists() else []
        log.unlink(missing_ok=True)
        return sources


@pytest.fixture
def crate() -> Crate:
    return Crate(ROOT / "target/packaging/crate")


def complaint(printed: str) -> str:
    """The one sentence of the build script."""
    errors = [line for line in printed.splitlines() if line.startswith("error: rustdev")]
    assert len(errors) == 1, printed
    return errors[0]


def test_without_python(crate: Crate) -> None:
    said = complaint(crate.build(PYO3_PYTHON="/nowhere/python"))
    assert "`/nowhere/python` cannot be run" in said


def test_without_torch(crate: Crate) -> None:
    bare = crate.write("python", f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    said = complaint(crate.build(PYO3_PYTHON=str(bare)))
    assert f"`{bare}` has none: install torch 2.15" in said


@pytest.mark.parametrize("version", ["2.12.1", "2.16.0", "2.150.0", "3.0.0"])
def test_unsupported_torch(crate: Crate, version: str) -> None:
    crate.install_torch(version)
    said = complaint(crate.build())
    assert "2.13, 2.14, 2.15" in said
    assert f"torch {version}" in said


@pytest.mark.parametrize("compiler", ["/nowhere/c++", "/bin/false"])
def test_without_compiler(crate: Crate, compiler: str) -> None:
    said = complaint(crate.build(CXX=compiler))
    assert "C++20 compiler" in said
    assert compiler in said


def test_a_file_that_does_not_compile(crate: Crate) -> None:
    crate.write("shim/broken.cpp", "")
    printed = crate.build()
    assert "broken.cpp:1: error: as it says" in printed
    assert "shim/broken.cpp does not compile" in printed


def test_only_what_changed_is_compiled(crate: Crate) -> None:
    assert "error" not in crate.build()
    assert crate.compiled() == ["shim/first.cpp", "shim/ops/second.cpp"]
    crate.build()
    assert crate.compiled() == []
    crate.write("src/lib.rs", "pub fn touched() {}\n")
    crate.build()
    assert crate.compiled() == []
    crate.write("shim/first.cpp", "")
    crate.build()
    assert crate.compiled() == ["shim/first.cpp"]
    crate.write("shim/common.h", "")
    crate.build()
    assert crate.compiled() == ["shim/first.cpp", "shim/ops/second.cpp"]


def test_lists_of_names_are_written_where_they_changed(crate: Crate) -> None:
    crate.build()
    directory = max((ROOT / "target/packaging/target").rglob("out/include"), key=lambda found: found.stat().st_mtime)
    headers = [directory / name for name in ("generated_metas.h", "generated_typed_kernels.h")]
    before = [header.stat().st_mtime_ns for header in headers]
    names = crate.directory / "src/operators/compiled_names.rs"
    crate.write("src/operators/compiled_names.rs", names.read_text().replace("scatter.src", "scatter.other", 1))
    crate.build()
    assert "#include <ATen/ops/scatter_meta.h>" in headers[0].read_text()
    assert 'META("scatter.other", scatter_other)' in headers[0].read_text()
    assert [header.stat().st_mtime_ns != time for header, time in zip(headers, before, strict=True)] == [True, False]


def test_another_torch_compiles_everything(crate: Crate) -> None:
    crate.build()
    crate.compiled()
    crate.install_torch("2.14.1")
    crate.build()
    assert crate.compiled() == ["shim/first.cpp", "shim/ops/second.cpp"]


def test_torch_elsewhere_compiles_everything(crate: Crate) -> None:
    crate.build()
    crate.compiled()
    crate.torch.parent.rename(crate.directory / "elsewhere")
    crate.build(PYTHONPATH=str(crate.directory / "elsewhere"))
    assert crate.compiled() == ["shim/first.cpp", "shim/ops/second.cpp"]
