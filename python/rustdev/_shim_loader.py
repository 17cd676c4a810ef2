"""Loads the shim for the torch of this process: the C++ library that registers the device with PyTorch.

PyTorch keeps no C++ ABI across minor releases, so there is a shim for each of them in ``_shim/``. A file's name has the minor
release and the interface between core and shim (``src/abi/rd_shim.rs``): a shim that does not fit is not found, rather than crash
while it is loaded.
"""

import ctypes
import sys
from pathlib import Path

from . import _rustdev

__all__ = ["load", "shims"]

_DIRECTORY = Path(__file__).parent / "_shim"


def shims() -> dict[str, Path]:
    """Return the shims that fit to the core, by the minor release of torch that they are for."""
    suffix = f"-{_rustdev.interface}.so"
    found = sorted(_DIRECTORY.glob(f"*{suffix}"), key=lambda path: tuple(map(int, path.name.removesuffix(suffix).split("."))))
    return {path.name.removesuffix(suffix): path for path in found}


def load(torch_version: str) -> None:
    """Load the shim.

    Args:
        torch_version: ``torch.__version__`` of this process.

    Raises:
        ImportError: There is no shim for that minor release.
        SystemExit: The process is ``python -m rustdev.build_shim``, which has made one.
    """
    minor = ".".join(torch_version.split(".")[:2])
    found = shims()
    if minor in found:
        ctypes.CDLL(str(found[minor]))
    elif "rustdev.build_shim" in sys.orig_argv:
        from . import build_shim

        sys.argv = ["build_shim", *sys.orig_argv[sys.orig_argv.index("rustdev.build_shim") + 1 :]]
        raise SystemExit(build_shim.main())
    else:
        raise ImportError(
            f"rustdev has a shim for torch {', '.join(found) or 'no release'}, and this is torch {torch_version}: "
            "`python -m rustdev.build_shim` compiles one, with a C++20 compiler"
        )
