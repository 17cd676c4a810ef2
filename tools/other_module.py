"""Run the Python tests on another build of the extension module without installing it: ``make test-hardware``.

    python tools/other_module.py MODULE SHIMS [arguments of pytest]

MODULE is a library built by cargo, with the entry point of ``rustdev._rustdev``; SHIMS is the directory of its shims. The package
with both is created in ``package/`` next to the module. Processes that a test starts import it, too.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[1]
PACKAGES = ("rustdev", "rustdev_autoload", "rustdev_conformance", "rustdev_pytest")


def link(path: Path, target: Path) -> None:
    """Create or replace a symbolic link."""
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def place_package(module: Path, shims: Path, directory: Path) -> None:
    """Create the package in a directory, with the module, the shims, and the entry points for torch and pytest."""
    shutil.rmtree(directory, ignore_errors=True)
    for name in PACKAGES:
        (directory / name).mkdir(parents=True)
        for path in (ROOT / "python" / name).iterdir():
            if path.suffix != ".so" and path.name not in ("__pycache__", "_shim"):
                link(directory / name / path.name, path)
    link(directory / "rustdev" / "_rustdev.abi3.so", module)
    link(directory / "rustdev" / "_shim", shims)
    about = directory / "rustdev-0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: rustdev\nVersion: 0\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")


def run_tests(interpreter: Path, package: Path, arguments: list[str], variables: dict[str, str]) -> int:
    """Run pytest with the package on the path, and return its exit status."""
    environment = {**os.environ, **variables, "PYTHONPATH": str(package)}
    return subprocess.run([str(interpreter), "-m", "pytest", *arguments], env=environment, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    library = Path(sys.argv[1]).absolute()
    place_package(library, Path(sys.argv[2]).absolute(), library.parent / "package")
    sys.exit(run_tests(Path(sys.executable), library.parent / "package", sys.argv[3:], {}))
