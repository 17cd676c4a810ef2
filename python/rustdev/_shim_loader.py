"""Loads the shim for the torch of this process: the C++ library that registers the device with PyTorch.

PyTorch's C++ ABI changes with each minor release, so ``_shim/`` has a shim for each of them. The file name contains the minor
release and a hash of the interface between core and shim (``src/abi/rd_shim.rs``). An incompatible shim is therefore not found,
rather than crash when it is loaded.
"""

import ctypes
import sys
from pathlib import Path

from . import _rustdev

_DIRECTORY = Path(__file__).parent / "_shim"


def shims() -> dict[str, Path]:
    """Return the paths of the shims that are compatible with the core, by minor release of torch."""
    suffix = f"-{_rustdev.interface}.so"
    found = sorted(_DIRECTORY.glob(f"*{suffix}"), key=lambda path: tuple(map(int, path.name.removesuffix(suffix).split("."))))
    return {path.name.removesuffix(suffix): path for path in found}


def load(torch_version: str) -> None:
    """Load the shim.

    Args:
        torch_version: ``torch.__version__`` of this process.

    Raises:
        ImportError: If there is no shim for this minor release.
        SystemExit: If this process is ``python -m rustdev.build_shim``: the shim is built, and the process ends.
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
