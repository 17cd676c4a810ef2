"""Entry point of the group ``torch.backends``: ``import torch`` makes the device available.

An exception in an entry point would abort ``import torch``. This separate package turns it into a warning and a placeholder for
``torch.rustdev`` that raises the reason when the device is used. A later ``import rustdev`` raises the exception itself.

A backend that is built on rustdev is an installed package with an entry point in the group ``rustdev.backends``, under the name of
its device. It takes the place of rustdev's own device: ``import torch`` imports it instead. Its ``__init__`` calls
:func:`register` with its extension module.
"""

import functools
import sys
import types
import warnings
from importlib.metadata import EntryPoint, entry_points
from typing import NoReturn

__all__ = ["Unavailable", "load", "name", "register"]


class Unavailable(types.ModuleType):
    """Placeholder for ``torch.rustdev`` after a failed import. Every use raises an error with the reason.

    It has the functions that PyTorch itself calls on every device module, with the results of ``torch.cuda`` without a GPU.

    Args:
        backend: Name of the device.
        reason: Exception of the failed import.
    """

    def __init__(self, backend: str, reason: Exception) -> None:
        super().__init__(f"torch.{backend}", f"Not available: {reason}")
        self._backend, self._reason = backend, reason

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"torch.{self._backend} has no {name}, because the device is not available: {self._reason}")

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
        raise RuntimeError(f"the device {self._backend} is not available: {self._reason}") from self._reason


@functools.cache
def _backends() -> list[EntryPoint]:
    return sorted(entry_points(group="rustdev.backends"))


def name() -> str:
    """Return the name of the device: that of the first installed backend that is built on rustdev, else ``rustdev``."""
    return next((backend.name for backend in _backends()), "rustdev")


def register(core: types.ModuleType) -> None:
    """Register the device of a backend that is built on rustdev: ``torch.<name>``, as ``import rustdev`` does for its own device.

    Args:
        core: Extension module of the backend, whose entry point calls ``rustdev::python::register_as`` (Rust).

    Raises:
        ImportError: If this process has another extension device already.
    """
    if sys.modules.setdefault("rustdev._rustdev", core) is not core:
        known = sys.modules["rustdev._rustdev"].backend
        raise ImportError(f"torch holds one extension device at a time, and it is {known} already")
    import rustdev  # noqa: F401


def load() -> None:
    """Import the device. This is a no-op if ``import rustdev`` is what imported torch."""
    backends = _backends()
    try:
        if len(backends) > 1:
            found = ", ".join(backend.name for backend in backends)
            raise ImportError(f"torch holds one extension device at a time, and several are installed: {found}")
        if backends:
            backends[0].load()
        else:
            import rustdev  # noqa: F401
    except Exception as error:
        warnings.warn(f"the device {name()} is not available: {error}", RuntimeWarning, stacklevel=2)
        _stand_in(name(), error)


def _stand_in(backend: str, reason: Exception) -> None:
    """Install the placeholder as ``torch.<backend>``, unless another backend has PyTorch's PrivateUse1 slot."""
    import torch

    if torch._C._get_privateuse1_backend_name() not in ("privateuseone", backend) or hasattr(torch, backend):
        return
    torch.utils.rename_privateuse1_backend(backend)
    sys.modules[f"torch.{backend}"] = placeholder = Unavailable(backend, reason)
    setattr(torch, backend, placeholder)
