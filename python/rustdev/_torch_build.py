"""Finds out which torch the extension module was built for, without loading it.

PyTorch keeps no C++ ABI across minor releases: a module built for another one may crash while it is loaded. So the version is read
from the file itself, where ``src/python.rs`` leaves it as a marked string.
"""

import importlib.util
import mmap

_MARKER = b"rustdev built for torch "


def built_for() -> str:
    """Return the version of the torch that the extension module was compiled against.

    Raises:
        ImportError: There is no extension module, or it carries no version.
    """
    spec = importlib.util.find_spec("rustdev._rustdev")
    if spec is None or spec.origin is None:
        raise ImportError("rustdev has no extension module: build it with `maturin develop --release`")
    with open(spec.origin, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = content.find(_MARKER)
        if start < 0:
            raise ImportError(f"{spec.origin} does not say which torch it was built for")
        start += len(_MARKER)
        return content[start : content.find(b"\0", start)].decode()


def require(torch_version: str) -> None:
    """Refuse a torch of another minor release than the one built for.

    Args:
        torch_version: ``torch.__version__`` of this process.

    Raises:
        ImportError: The minor releases differ.
    """
    built = built_for()
    if built.split(".")[:2] != torch_version.split(".")[:2]:
        raise ImportError(
            f"rustdev was built for torch {built} and cannot be loaded into torch {torch_version}: "
            f"rebuild rustdev, or install torch {built}"
        )
