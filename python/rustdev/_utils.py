"""How the functions of this package read their ``device`` arguments, and what their context managers remember."""

import threading
from typing import Generic, TypeVar

import torch

from . import _rustdev

__all__ = ["DeviceLike"]

_T = TypeVar("_T")


class _ThreadStack(Generic[_T]):
    """What a context manager has to restore: a stack for each thread, so that one object may be entered again and anywhere.

    The current device and the current streams belong to the thread, so what one thread found is never put back in another.
    """

    def __init__(self) -> None:
        self._stacks: dict[int, list[_T]] = {}

    def push(self, value: _T) -> None:
        self._stacks.setdefault(threading.get_ident(), []).append(value)

    def pop(self) -> _T | None:
        """Return what this thread pushed last; None if there is nothing left of it."""
        stack = self._stacks.get(threading.get_ident())
        if not stack:
            return None
        value = stack.pop()
        if not stack:
            del self._stacks[threading.get_ident()]
        return value


#: What every function takes as a device: an index, a name such as ``"rustdev:1"``, a ``torch.device``, or None for the current one.
DeviceLike = int | str | torch.device | None

#: What PyTorch's users know from other accelerators.
_FORK_REFUSAL = (
    "Cannot re-initialize rustdev in forked subprocess. To use rustdev with multiprocessing, you must use the 'spawn' start method"
)


def _refuse_in_fork_child() -> None:
    """Raise where the device cannot be used.

    Raises:
        RuntimeError: If this is a forked child of a process that used the device.
    """
    if _rustdev.is_fork_child():
        raise RuntimeError(_FORK_REFUSAL)


def _use() -> None:
    """Have PyTorch set the device up: it calls ``device._lazy_init`` once, and synchronises no device before it has.

    Raises:
        RuntimeError: If this is a forked child of a process that used the device.
    """
    _refuse_in_fork_child()
    torch._C._accelerator_getDeviceIndex()


def _expect_callable(function: object) -> None:
    """Refuse at the call what could only fail when it is called, much later and elsewhere."""
    if not callable(function):
        raise TypeError(f"expected a function, got {type(function).__name__}")


def _get_device_index(device: object, optional: bool = False) -> int:
    """Return the index that a device argument names.

    Args:
        device: An integer is returned as it is.
        optional: Whether None, and a device without an index, mean the current device.

    Raises:
        ValueError: It is no rustdev device, or it names none where one is needed.
    """
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != "rustdev":
            raise ValueError(f"Expected a rustdev device, but got: {device}")
        if device.index is not None:
            return device.index
    elif device is not None:
        raise ValueError(f"Expected a rustdev device or an index, but got: {device!r}")
    if not optional:
        raise ValueError(f"Expected a rustdev device with a specified index or an integer, but got: {device}")
    return _rustdev.current_device()


def _checked_device_index(device: object) -> int:
    """Return the index of an existing device; None and a device without an index mean the current one.

    Raises:
        ValueError: It is no rustdev device.
        RuntimeError: There is no such device, or this is a forked child.
    """
    index = _get_device_index(device, optional=True)
    _refuse_in_fork_child()
    count = torch._C._accelerator_hooks_device_count()
    if not 0 <= index < count:
        raise RuntimeError(f"invalid device ordinal {index}: torch.rustdev.device_count() is {count} (RUSTDEV_DEVICE_COUNT)")
    return index
