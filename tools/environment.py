"""Queries of a Python environment for the Makefile.

    environment.py torch [VERSION]   print the version of this Python's torch, if it is supported (and is VERSION)
    environment.py lacks FILE        succeed if every requirement of FILE is installed here, at any version; name the others

Standard library only: it runs before anything is installed. torch is located, not imported.
"""

import sys
from importlib import metadata
from pathlib import Path

SUPPORTED = ("2.13", "2.14", "2.15")


def torch_version(wanted: str | None) -> str | None:
    """Return the release of the installed torch without its local part; None if it is not ``wanted`` or not supported."""
    try:
        version = metadata.version("torch").partition("+")[0]
    except metadata.PackageNotFoundError:
        return None
    accepted = version == wanted if wanted else version.rpartition(".")[0] in SUPPORTED
    return version if accepted else None


def lacking(requirements: Path) -> list[str]:
    """Return the pinned requirements of a file that are not installed at any version."""
    names = [line.partition("==")[0].strip() for line in requirements.read_text().splitlines() if "==" in line and line[0] != "#"]
    installed = {normalized(distribution.metadata["Name"]) for distribution in metadata.distributions()}
    return [name for name in names if normalized(name) not in installed]


def normalized(name: str) -> str:
    """Return the normalized name of a distribution, as package indices compare names."""
    return name.lower().replace("_", "-").replace(".", "-")


def main(command: str, argument: str | None = None) -> None:
    """Run a command of the command line."""
    if command == "torch":
        print(torch_version(argument) or "")
    elif command == "lacks" and argument is not None:
        missing = lacking(Path(argument))
        sys.exit(f"installing {', '.join(missing)}" if missing else 0)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
