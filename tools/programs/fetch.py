"""Distributions from the package index, each release in a folder of its own: a program sees those that it asks for alone.

torch and what the tests of rustdev take come from the active environment. pip is told to look at no dependencies, so that nothing
brings another torch.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


class UnavailableError(Exception):
    """A distribution could not be had."""


def installed(root: Path, name: str, release: str) -> Path:
    """Return the folder that holds an installed release, which is installed first where it is absent.

    Raises:
        UnavailableError: pip failed.
    """
    target = root / "site-packages" / f"{name}-{release}"  # a folder that dill knows as one of libraries
    if not target.exists():
        beside = _empty(target)
        _pip("install", "--no-deps", "--no-compile", "--target", str(beside), f"{name}=={release}")
        beside.rename(target)
    return target


def source(root: Path, name: str, release: str) -> Path:
    """Return the folder of a release's source distribution, which holds its tests.

    Raises:
        UnavailableError: pip failed, or has found no archive.
    """
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
    """Return an empty folder beside what is to be made: an interrupted download leaves nothing that looks complete."""
    beside = target.with_name(f".{target.name}")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    return beside


def _pip(*arguments: str) -> None:
    done = subprocess.run([*PIP, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        raise UnavailableError(f"pip {arguments[0]} {arguments[-1]}: {lines[-1]}")
