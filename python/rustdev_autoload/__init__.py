"""Entry point of the group ``torch.backends``: ``import torch`` makes the device available.

An exception in an entry point would abort ``import torch``. This separate package turns it into a warning and a placeholder for
``torch.rustdev`` that raises the reason when the device is used. A later ``import rustdev`` raises the exception itself.
"""

import sys
import types
import warnings
from typing import NoReturn

__all__ = ["Unavailable", "load"]


class Unavailable(types.ModuleType):
    """Placeholder for ``torch.rustdev`` after a failed import. Every use raises an error with the reason.

    It has the functions that PyTorch itself calls on every device module, with the results of ``torch.cuda`` without a GPU.

    Args:
        reason: Exception of the failed import.
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
        """Raise RuntimeError with the reason. PyTorch calls this before it creates the first tensor of a device."""
        raise RuntimeError(f"the device rustdev is not available: {self._reason}") from self._reason


def load() -> None:
    """Import rustdev. This is a no-op if ``import rustdev`` is what imported torch."""
    try:
        import rustdev  # noqa: F401
    except Exception as error:
        warnings.warn(f"the device rustdev is not available: {error}", RuntimeWarning, stacklevel=2)
        _stand_in(error)


def _stand_in(reason: Exception) -> None:
    """Install the placeholder as ``torch.rustdev``, unless another backend has PyTorch's PrivateUse1 slot."""
    import torch

    if torch._C._get_privateuse1_backend_name() not in ("privateuseone", "rustdev") or hasattr(torch, "rustdev"):
        return
    torch.utils.rename_privateuse1_backend("rustdev")
    torch.rustdev = sys.modules["torch.rustdev"] = Unavailable(reason)  # type: ignore[attr-defined]
