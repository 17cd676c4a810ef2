"""Distributions from the package index, each release in a separate folder, so that a program sees only those that it lists.

torch and the requirements of rustdev's tests come from the active environment. pip ignores dependencies, so that no distribution
installs another torch.
"""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


class UnavailableError(Exception):
    """A distribution is unavailable."""


def installed(root: Path, name: str, release: str) -> Path:
    """Return the folder of an installed release, after installing it if it is absent."""
    target = root / "site-packages" / f"{name}-{release}"  # dill treats modules below "site-packages" as libraries
    if not target.exists():
        beside = _empty(target)
        _pip("install", "--no-deps", "--no-compile", "--target", str(beside), f"{name}=={release}")
        beside.rename(target)
    return target


def source(root: Path, name: str, release: str) -> Path:
    """Return the folder of a release's source distribution, which contains its tests."""
    target = root / "sources" / f"{name}-{release}"
    if not target.exists():
        beside = _empty(target)
        _pip("download", "--no-deps", "--no-binary", name, "--dest", str(beside), f"{name}=={release}")
        archives = list(beside.glob("*.tar.gz"))
        if not archives:
            raise UnavailableError(f"{name} {release} has no source distribution")
        with tarfile.open(archives[0]) as archive:
            archive.extractall(beside, filter="data")
        (folder,) = (path for path in beside.iterdir() if path.is_dir())
        folder.rename(target)
        shutil.rmtree(beside)
    return target


def _empty(target: Path) -> Path:
    """Return an empty temporary folder next to the target, so that an interrupted download does not look complete."""
    beside = target.with_name(f".{target.name}")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    return beside


def _pip(*arguments: str) -> None:
    done = subprocess.run([*PIP, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        raise UnavailableError(f"pip {arguments[0]} {arguments[-1]}: {lines[-1]}")
