"""Write the package of a backend of one's own, whose device has its own name: ``python -m rustdev.new_backend mychip``.

The package is a Rust crate with a driver and kernels, a Python package, tests, and a workflow for GitHub; the templates are in
``_template/``. Its device is simulated, until its driver calls hardware. docs/own-backend.md is the walk through it.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import torch

from . import _rustdev

__all__ = ["main", "write"]

_TEMPLATE = Path(__file__).parent / "_template"


def _is_taken(name: str) -> bool:
    """Return whether PyTorch or this package has a device of this name."""
    try:
        torch.device(name)
    except RuntimeError:
        return name in ("rustdev", "privateuseone", "torch")
    return True


def write(name: str, directory: Path, crate: Path | None = None) -> list[Path]:
    """Write the package.

    Args:
        name: Name of the device: lower-case letters, digits and ``_``, a letter first.
        directory: Directory to create.
        crate: Directory of the crate ``rustdev``; None for the release of this version.

    Returns:
        The paths of the files.

    Raises:
        ValueError: If the name cannot be that of a device.
        FileExistsError: If the directory exists.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(f"{name!r} cannot be the name of a device: it has lower-case letters, digits and _, a letter first")
    if _is_taken(name):
        raise ValueError(f"{name!r} is the name of a device already")
    patch = "" if crate is None else f'\n[patch.crates-io]\nrustdev = {{ path = "{crate.resolve()}" }}\n'
    directory.mkdir(parents=True)
    written = []
    for template in sorted(_TEMPLATE.rglob("*.in")):
        relative = str(template.relative_to(_TEMPLATE)).removesuffix(".in").replace("dot_", ".").replace("mychip", name)
        text = template.read_text().replace("@VERSION@", _rustdev.__version__).replace("@PATCH@\n", patch)
        path = directory / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("mychip", name).replace("MYCHIP", name.upper()))
        written.append(path)
    return written


def main(arguments: list[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m rustdev.new_backend", description="Write the package of a backend of your own."
    )
    parser.add_argument("name", help="name of the device, as in torch.mychip")
    parser.add_argument("--directory", type=Path, help="directory to create (default: the name)")
    parser.add_argument("--crate", type=Path, help="a checkout of rustdev, in place of the release of this version")
    options = parser.parse_args(arguments)
    directory = options.directory or Path(options.name)
    try:
        written = write(options.name, directory, options.crate)
    except (ValueError, FileExistsError) as error:
        print(f"new_backend: {error}", file=sys.stderr)
        return 1
    print(f"wrote {len(written)} files; now: cd {directory} && make test")
    return 0


if __name__ == "__main__":
    sys.exit(main())
