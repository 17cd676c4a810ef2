"""Helpers for ``device`` arguments, and the state of context managers."""

import threading
from typing import Generic, TypeVar

import torch

from . import _rustdev
from ._name import NAME, variable

_T = TypeVar("_T")


class _ThreadStack(Generic[_T]):
    """Per-thread stack of values that a context manager restores. One object may be entered repeatedly and in several threads.

    The current device and the current streams are thread-local, so a value is restored only in the thread that pushed it.
    """

    def __init__(self) -> None:
        self._stacks: dict[int, list[_T]] = {}

    def push(self, value: _T) -> None:
        self._stacks.setdefault(threading.get_ident(), []).append(value)

    def pop(self) -> _T | None:
        """Pop the value that this thread pushed last; None if its stack is empty."""
        stack = self._stacks.get(threading.get_ident())
        if not stack:
            return None
        value = stack.pop()
        if not stack:
            del self._stacks[threading.get_ident()]
        return value


#: Type of device arguments: an index, a name such as ``"rustdev:1"``, a ``torch.device``, or None for the current device.
DeviceLike = int | str | torch.device | None

#: The message of other PyTorch accelerators.
_FORK_REFUSAL = (
    f"Cannot re-initialize {NAME} in forked subprocess. To use {NAME} with multiprocessing, you must use the 'spawn' start method"
)


def _refuse_in_fork_child() -> None:
    """Raise if the device cannot be used because of a fork.

    Raises:
        RuntimeError: If this is a forked child of a process that used the device.
    """
    if _rustdev.is_fork_child():
        raise RuntimeError(_FORK_REFUSAL)


def _use() -> None:
    """Make PyTorch initialize the device. It calls ``device._lazy_init`` once; before that it does not synchronize devices.

    Raises:
        RuntimeError: If this is a forked child of a process that used the device.
    """
    _refuse_in_fork_child()
    torch._C._accelerator_getDeviceIndex()


def _expect_callable(function: object) -> None:
    """Raise TypeError for an object that is not callable, instead of a late error in another thread."""
    if not callable(function):
        raise TypeError(f"expected a function, got {type(function).__name__}")


def _get_device_index(device: object, optional: bool = False) -> int:
    """Return the index of a device argument.

    Args:
        device: Device; an integer is returned unchanged.
        optional: Whether None and a device without an index mean the current device.

    Raises:
        ValueError: If it is not a rustdev device, or has no index and ``optional`` is False.
    """
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != NAME:
            raise ValueError(f"Expected a {NAME} device, but got: {device}")
        if device.index is not None:
            return device.index
    elif device is not None:
        raise ValueError(f"Expected a {NAME} device or an index, but got: {device!r}")
    if not optional:
        raise ValueError(f"Expected a {NAME} device with a specified index or an integer, but got: {device}")
    return _rustdev.current_device()


def _checked_device_index(device: object) -> int:
    """Return the index of an existing device; None and a device without an index mean the current one.

    Raises:
        ValueError: If it is not a rustdev device.
        RuntimeError: If the device does not exist, or this process is a forked child.
    """
    index = _get_device_index(device, optional=True)
    _refuse_in_fork_child()
    count = torch._C._accelerator_hooks_device_count()
    if not 0 <= index < count:
        raise RuntimeError(f"invalid device ordinal {index}: torch.{NAME}.device_count() is {count} ({variable('DEVICE_COUNT')})")
    return index
