"""Devices: their number, the current device, and device properties."""

import dataclasses
import functools
import platform
from types import TracebackType

import torch

from . import _rustdev
from ._name import NAME
from ._profiles import _imitated, _Profile
from ._utils import DeviceLike, _checked_device_index, _get_device_index, _refuse_in_fork_child, _ThreadStack, _use

__all__ = [
    "DeviceProperties",
    "can_device_access_peer",
    "current_device",
    "device",
    "device_count",
    "device_of",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_num_threads",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "is_tf32_supported",
    "set_device",
    "set_num_threads",
    "synchronize",
]

#: True once PyTorch or the program has initialized the device.
_is_asked_for = False


def is_available() -> bool:
    """Return whether at least one device is usable: False in a forked child, and if no device is visible."""
    return device_count() > 0


def device_count() -> int:
    """Return the number of visible devices (``RUSTDEV_DEVICE_COUNT``, ``RUSTDEV_VISIBLE_DEVICES``); 0 in a forked child."""
    return _rustdev.device_count()


def _is_compiled() -> bool:
    return True


def _is_in_bad_fork() -> bool:
    """Return whether this is a forked child of a process that used the device. The device cannot be used in such a child."""
    return _rustdev.is_fork_child()


def init() -> None:
    """Initialize the device. The first use of the device does this implicitly.

    Raises:
        RuntimeError: If this process is a forked child.
    """
    _use()


def _lazy_init() -> None:
    """Record that the device is in use. PyTorch calls this before it creates the first device tensor or queries the device."""
    global _is_asked_for
    _refuse_in_fork_child()
    _is_asked_for = True


def is_initialized() -> bool:
    """Return whether the device has been initialized, as ``torch.cuda.is_initialized`` does.

    Every call that needs more than the number of devices initializes the device. ``DeviceMesh`` chooses a device by ``LOCAL_RANK``
    if this is False. The result is False in a forked child of a process that used the device.
    """
    return (_is_asked_for or _rustdev.is_started()) and not _is_in_bad_fork()


def current_device() -> int:
    """Return the index of the calling thread's current device."""
    _refuse_in_fork_child()
    return torch._C._accelerator_getDeviceIndex()


def set_device(device: DeviceLike) -> None:
    """Set the calling thread's current device.

    Args:
        device: Selected device. A negative index is a no-op.

    Raises:
        RuntimeError: If the device does not exist.
    """
    index = _get_device_index(device)
    if index >= 0:
        torch._C._accelerator_setDeviceIndex(_checked_device_index(index))


def _exchange_device(index: int) -> int:
    if index >= 0:
        _use()
    return torch._C._accelerator_hooks_exchange_device(_checked_device_index(index) if index >= 0 else -1)


def _maybe_exchange_device(index: int) -> int:
    return torch._C._accelerator_hooks_maybe_exchange_device(index)


class device:  # noqa: N801
    """Context manager that changes the current device and restores the previous one on exit.

    Args:
        device: Device to select. None or a negative index is a no-op.
    """

    def __init__(self, device: DeviceLike) -> None:
        self.idx = -1 if device is None else _get_device_index(device, optional=True)
        self._previous: _ThreadStack[int] = _ThreadStack()

    def __enter__(self) -> None:
        self._previous.push(_exchange_device(self.idx))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        previous = self._previous.pop()
        if previous is not None:
            _maybe_exchange_device(previous)


class device_of(device):  # noqa: N801
    """Context manager that changes the current device to that of an object. It is a no-op for objects on other backends.

    Args:
        obj: Tensor or storage allocated on the selected device.
    """

    def __init__(self, obj: torch.Tensor | torch.UntypedStorage | torch.TypedStorage) -> None:
        super().__init__(obj.device.index if obj.device.type == NAME else -1)


def synchronize(device: DeviceLike = None) -> None:
    """Wait for all tasks in all streams of a device to complete.

    Args:
        device: Selected device. Default: the current device.

    Raises:
        torch.AcceleratorError: If a task has failed; the message names the operator.
    """
    _use()
    torch._C._accelerator_synchronizeDevice(_checked_device_index(device))


@dataclasses.dataclass(frozen=True)
class DeviceProperties:
    """Properties of a device.

    Attributes:
        name: Name of the processor, or of the hardware in its place. An imitated GPU (``RUSTDEV_PROFILE``) is named before it.
        major: Major compute capability of the imitated GPU; without one, the major version of rustdev.
        minor: Minor compute capability of the imitated GPU; without one, the minor version of rustdev.
        total_memory: Memory budget in bytes. Devices may share one budget.
        multi_processor_count: Number of compute threads, which all devices share.
    """

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int


@functools.cache
def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                key, _, value = line.partition(":")
                if key.strip() == "model name":
                    return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    """Return the properties of a device.

    Args:
        device: Selected device. Default: the current device.
    """
    _use()
    _checked_device_index(device)
    return _properties_of(_imitated())


def _name_of(profile: _Profile | None) -> str:
    """Return the name that all devices have, behind that of the imitated GPU if a profile is given."""
    own = _rustdev.hardware_name() or f"{NAME} ({_processor_name()})"
    return f"{profile.name} ({own})" if profile else own


def _properties_of(profile: _Profile | None) -> DeviceProperties:
    """Return the properties that all devices have, those of the imitated GPU if a profile is given."""
    version = [int(part) for part in _rustdev.__version__.split(".")[:2]]
    major, minor = profile.capability if profile else version
    return DeviceProperties(
        name=_name_of(profile),
        major=major,
        minor=minor,
        total_memory=_rustdev.total_memory(),
        multi_processor_count=get_num_threads(),
    )


def get_device_name(device: DeviceLike = None) -> str:
    """Return the name of a device.

    Args:
        device: Selected device. Default: the current device.
    """
    return get_device_properties(device).name


def get_device_capability(device: DeviceLike = None) -> tuple[int, int]:
    """Return the (major, minor) compute capability of the imitated GPU; without one, the major and minor version of rustdev.

    Args:
        device: Selected device. Default: the current device.
    """
    properties = get_device_properties(device)
    return properties.major, properties.minor


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Return whether peer access between two devices is possible. It is, between any two different devices.

    Args:
        device: Device that reads.
        peer_device: Device that is read.
    """
    _use()
    return _checked_device_index(device) != _checked_device_index(peer_device)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether the device supports bfloat16. It always does.

    Args:
        including_emulation: If False, return whether the imitated GPU (``RUSTDEV_PROFILE``), if any, supports bfloat16 natively.
    """
    profile = _imitated()
    return including_emulation or profile is None or profile.has_bfloat16


def is_tf32_supported() -> bool:
    """Return whether the imitated GPU (``RUSTDEV_PROFILE``), if any, has TF32, as those with bfloat16 do.

    Matrix products of float32 never use it: they have the precision of PyTorch's CPU device.
    """
    profile = _imitated()
    return profile is not None and profile.has_bfloat16


def get_arch_list() -> list[str]:
    """Return the instruction sets that kernels are compiled for and this processor has, best last; ``RUSTDEV_ISA`` selects one."""
    return _rustdev.instruction_sets()


def get_num_threads() -> int:
    """Return the number of compute threads, which all devices share."""
    return _rustdev.num_threads()


def set_num_threads(count: int) -> None:
    """Set the number of compute threads, which all devices share. ``RUSTDEV_NUM_THREADS`` sets the initial number.

    Args:
        count: Number of threads, from 1 to 1024.

    Raises:
        ValueError: If ``count`` is out of range.
    """
    _rustdev.set_num_threads(count)
