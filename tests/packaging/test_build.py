"""The build of the shim: its messages about missing requirements, and what it recompiles after a change.

The script runs on a separate tree with a fake torch and a fake C++ compiler, so that no time is spent on compilation, and every
compilation is counted.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILER = """#!/bin/sh
# Writes what it is asked for and the list of the files read, and notes which source it compiled.
while [ $# -gt 0 ]; do
  case "$1" in
    --version) exit 0 ;;
    -c) source=$2; shift ;;
    -o) object=$2; shift ;;
    -MF) dependencies=$2; shift ;;
    -x|-isystem|-include) shift ;;
    -*) ;;
    *) [ -e "$1" ] || { echo "no such file: $1" >&2; exit 1; } ;;
  esac
  shift
done
case "$source" in *broken.cpp) echo "broken.cpp:1: error: as it says" >&2; exit 1 ;; esac
echo object > "$object"
if [ -n "$dependencies" ]; then
  echo "${source##*/shim/}" >> "$(dirname "$0")/compiled"
  for file in "$object:" "$source" "${source%/shim/*}/shim/common.h"; do echo "$file"; done |
    sed 's/ /\\\\ /g' | tr '\\n' ' ' > "$dependencies"
fi
"""


class Tree:
    """A tree with the project's script, two C++ files, and a Python with a pretended torch; its path has a space."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory = directory / "a tree"
        for source in ("shim/first.cpp", "shim/ops/second.cpp", "shim/common.h", "shim/precompiled.h"):
            self.write(source, "")
        self.write("c++", COMPILER).chmod(0o755)
        self.write("python/rustdev/build_shim.py", (ROOT / "python/rustdev/build_shim.py").read_text())
        for name in ("rustdev.h", "rustdev_operators.h", "rustdev_completion.h", "compiled_names.txt"):
            shutil.copy(ROOT / "shim" / name, directory / "shim")
        self.install_torch("2.15.0")

    def write(self, path: str, text: str) -> Path:
        """Write a file, with a modification time that differs from every earlier one."""
        file = self.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        time.sleep(0.01)
        file.write_text(text)
        return file

    def install_torch(self, version: str) -> None:
        """Put a torch of that version where the tree's Python finds it first."""
        self.write("site/torch/__init__.py", "")
        self.write("site/torch/version.py", f"__version__ = '{version}'\n")

    def build(self, *, python: tuple[str, ...] = (sys.executable,), **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the script as shim/build.rs does."""
        variables = os.environ | {"PYTHONPATH": str(self.directory / "site"), "CXX": f"'{self.directory}/c++'"} | environment
        command = [*python, "-P", "python/rustdev/build_shim.py", "--objects", "objects"]
        return subprocess.run(command, cwd=self.directory, env=variables, capture_output=True, text=True, check=False, timeout=60)

    def compiled(self) -> list[str]:
        """Return the sources compiled since the last call."""
        log = self.directory / "compiled"
        sources = sorted(log.read_text().split()) if log.exists() else []
        log.unlink(missing_ok=True)
        return sources

    def built(self) -> list[str]:
        """Return the minor releases of torch that have a shim."""
        return sorted(path.name.rsplit("-", 1)[0] for path in (self.directory / "python/rustdev/_shim").glob("*.so"))

    def library(self) -> Path:
        """Return the only shim."""
        (library,) = (self.directory / "python/rustdev/_shim").glob("*.so")
        return library


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


BOTH = ["first.cpp", "ops/second.cpp"]


def test_without_torch(tree: Tree) -> None:
    result = tree.build(python=(sys.executable, "-I", "-S"))
    assert result.returncode == 1
    assert "has none: install torch 2.15" in result.stderr


@pytest.mark.parametrize("compiler", ["/nowhere/c++", "/bin/false"])
def test_without_compiler(tree: Tree, compiler: str) -> None:
    result = tree.build(CXX=compiler)
    assert result.returncode == 1
    assert "C++20 compiler" in result.stderr
    assert compiler in result.stderr


def test_a_torch_that_is_not_tested_is_tried(tree: Tree) -> None:
    tree.install_torch("2.16.1")
    result = tree.build()
    assert result.returncode == 0, result.stderr
    assert "tested with torch 2.13, 2.14, 2.15" in result.stderr
    assert tree.built() == ["2.16"]


def test_a_file_that_does_not_compile(tree: Tree) -> None:
    tree.write("shim/broken.cpp", "")
    result = tree.build()
    assert result.returncode == 1
    assert "broken.cpp:1: error: as it says" in result.stdout
    assert "the shim does not compile" in result.stderr


def test_only_what_changed_is_compiled(tree: Tree) -> None:
    assert tree.build().returncode == 0
    assert tree.compiled() == BOTH
    tree.build()
    assert tree.compiled() == []
    tree.write("shim/first.cpp", "//")
    tree.build()
    assert tree.compiled() == ["first.cpp"]
    tree.write("shim/common.h", "//")
    tree.build()
    assert tree.compiled() == BOTH


def test_other_flags_have_objects_of_their_own(tree: Tree) -> None:
    tree.build()
    tree.compiled()
    tree.build(CXXFLAGS="-g")
    assert tree.compiled() == BOTH
    tree.library().write_text("of the other flags")
    tree.build()
    assert tree.compiled() == []
    assert tree.library().read_text() == "object\n", "the library is that of these flags again"


def test_lists_of_names_are_written_where_they_changed(tree: Tree) -> None:
    tree.build()
    (directory,) = (tree.directory / "objects").iterdir()
    headers = [directory / name for name in ("generated_metas.h", "generated_typed_kernels.h")]
    before = [header.stat().st_mtime_ns for header in headers]
    names = tree.directory / "shim/compiled_names.txt"
    tree.write("shim/compiled_names.txt", names.read_text().replace("scatter.src", "scatter.other", 1))
    tree.build()
    assert "#include <ATen/ops/scatter_meta.h>" in headers[0].read_text()
    assert 'META("scatter.other", scatter_other)' in headers[0].read_text()
    assert [header.stat().st_mtime_ns != time for header, time in zip(headers, before, strict=True)] == [True, False]


def test_each_release_compiles_everything_and_each_minor_has_a_shim(tree: Tree) -> None:
    for version in ("2.15.0", "2.15.1", "2.14.1", "2.13.0"):
        tree.install_torch(version)
        tree.build()
        assert tree.compiled() == BOTH
    assert tree.built() == ["2.13", "2.14", "2.15"]


def test_a_shim_for_another_interface_goes(tree: Tree) -> None:
    tree.build()
    before = tree.library()
    tree.write("shim/rustdev.h", "// another interface")
    tree.build()
    assert tree.library() != before
