"""Entry point of the group ``torch.backends``: makes the device available by ``import torch`` alone.

It is a package of its own so that it can fail softly. An exception in an entry point would abort ``import torch``; here it becomes
a warning, and a stand-in for ``torch.rustdev`` that repeats the reason where the device is used. A later ``import rustdev`` raises
it.
"""

import sys
import types
import warnings
from typing import NoReturn

__all__ = ["Unavailable", "load"]


class Unavailable(types.ModuleType):
    """Stands in for ``torch.rustdev`` where the device could not be loaded: every use says why.

    It has what PyTorch asks of any device's module on its own account, as of ``torch.cuda`` without a GPU.

    Args:
        reason: why the device is not available.
    """

    def __init__(self, reason: Exception) -> None:
        super().__init__("torch.rustdev", f"Not available: {reason}")
        self._reason = reason

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"torch.rustdev has no {name}, because the device is not available: {self._reason}")

    def is_available(self) -> bool:
        """Return False."""
        return False

    def device_count(self) -> int:
        """Return 0."""
        return 0

    def manual_seed_all(self, seed: int) -> None:
        """Do nothing: there is no generator."""

    def _is_in_bad_fork(self) -> bool:
        return False

    def _lazy_init(self) -> NoReturn:
        """Raise the reason; PyTorch calls this before it makes the first tensor of a device."""
        raise RuntimeError(f"the device rustdev is not available: {self._reason}") from self._reason


def load() -> None:
    """Import rustdev; nothing happens if that import is what brought torch in."""
    try:
        import rustdev  # noqa: F401
    except Exception as error:
        warnings.warn(f"the device rustdev is not available: {error}", RuntimeWarning, stacklevel=2)
        _stand_in(error)


def _stand_in(reason: Exception) -> None:
    """Give the name of the device to the stand-in, unless another backend has PyTorch's one slot."""
    import torch

    if torch._C._get_privateuse1_backend_name() not in ("privateuseone", "rustdev") or hasattr(torch, "rustdev"):
        return
    torch.utils.rename_privateuse1_backend("rustdev")
    torch.rustdev = sys.modules["torch.rustdev"] = Unavailable(reason)  # type: ignore[attr-defined]
