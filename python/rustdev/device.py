"""Devices: how many there are, which is the current one, what they are like."""

import dataclasses
import functools
import platform
from types import TracebackType

import torch

from . import _rustdev
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

#: Whether PyTorch or the program has asked for the device to be set up.
_is_asked_for = False


def is_available() -> bool:
    """Return whether there is a device to use: not in a forked child, and not where no device is visible."""
    return device_count() > 0


def device_count() -> int:
    """Return the number of devices (``RUSTDEV_DEVICE_COUNT``, ``RUSTDEV_VISIBLE_DEVICES``), 0 in a forked child."""
    return _rustdev.device_count()


def _is_compiled() -> bool:
    return True


def _is_in_bad_fork() -> bool:
    """Return whether this is a forked child of a process that used the device, where it cannot be used."""
    return _rustdev.is_fork_child()


def init() -> None:
    """Set the device up, which its first use does as well.

    Raises:
        RuntimeError: This is a forked child.
    """
    _use()


def _lazy_init() -> None:
    """Note that the device is used. PyTorch calls this before it makes the first tensor there, or is asked for the device."""
    global _is_asked_for
    _refuse_in_fork_child()
    _is_asked_for = True


def is_initialized() -> bool:
    """Return whether the device was used: as ``torch.cuda.is_initialized``, by whatever asks for more than the number of devices.

    Device meshes choose a device by ``LOCAL_RANK`` where it was not. False in a forked child where the device cannot be used.
    """
    return (_is_asked_for or _rustdev.is_started()) and not _is_in_bad_fork()


def current_device() -> int:
    """Return the index of this thread's current device."""
    _refuse_in_fork_child()
    return torch._C._accelerator_getDeviceIndex()


def set_device(device: DeviceLike) -> None:
    """Set this thread's current device.

    Args:
        device: A negative index changes nothing.

    Raises:
        RuntimeError: There is no such device.
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
    """Context manager that sets the current device and goes back to the one before.

    Args:
        device: The device; None and a negative index change nothing.
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
    """Context manager that makes an object's device the current one; nothing happens for objects elsewhere.

    Args:
        obj: A tensor or a storage.
    """

    def __init__(self, obj: torch.Tensor | torch.UntypedStorage | torch.TypedStorage) -> None:
        super().__init__(obj.device.index if obj.device.type == "rustdev" else -1)


def synchronize(device: DeviceLike = None) -> None:
    """Wait until everything that was submitted to a device is done.

    Args:
        device: Default: the current one.

    Raises:
        torch.AcceleratorError: A task had failed; its text names the operator.
    """
    _use()
    torch._C._accelerator_synchronizeDevice(_checked_device_index(device))


@dataclasses.dataclass(frozen=True)
class DeviceProperties:
    """What a device is like.

    Attributes:
        name: The processor it runs on, or the hardware in its place; before it the GPU that it imitates (``RUSTDEV_PROFILE``).
        major: Major version of rustdev, where CUDA has the major compute capability; that of an imitated GPU.
        minor: Minor version of rustdev, or of an imitated GPU's compute capability.
        total_memory: The memory budget in bytes, which devices may share.
        multi_processor_count: The threads that share the work of all devices.
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
        device: Default: the current one.
    """
    _use()
    _checked_device_index(device)
    return _properties_of(_imitated())


def _properties_of(profile: _Profile | None) -> DeviceProperties:
    """Return the properties of each device, or those as which it imitates a GPU."""
    own = _rustdev.hardware_name() or f"rustdev ({_processor_name()})"
    version = [int(part) for part in _rustdev.__version__.split(".")[:2]]
    major, minor = profile.capability if profile else version
    return DeviceProperties(
        name=f"{profile.name} ({own})" if profile else own,
        major=major,
        minor=minor,
        total_memory=_rustdev.total_memory(),
        multi_processor_count=get_num_threads(),
    )


def get_device_name(device: DeviceLike = None) -> str:
    """Return the name of a device.

    Args:
        device: Default: the current one.
    """
    return get_device_properties(device).name


def get_device_capability(device: DeviceLike = None) -> tuple[int, int]:
    """Return major and minor version of rustdev in the place of CUDA's compute capability, or that of an imitated GPU.

    Args:
        device: Default: the current one.
    """
    properties = get_device_properties(device)
    return properties.major, properties.minor


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Return whether one device can copy from another without passing through the host: any two different ones can.

    Args:
        device: The device that reads.
        peer_device: The device that is read.
    """
    _use()
    return _checked_device_index(device) != _checked_device_index(peer_device)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether bfloat16 tensors can be computed with: always.

    Args:
        including_emulation: False asks whether a GPU that is imitated (``RUSTDEV_PROFILE``) does so by itself.
    """
    profile = _imitated()
    return including_emulation or profile is None or profile.has_bfloat16


def is_tf32_supported() -> bool:
    """Return whether products of float32 may round to 19 bits: never, they keep what PyTorch's CPU device keeps."""
    return False


def get_arch_list() -> list[str]:
    """Return the instruction sets of this processor that kernels are compiled for, the best last; ``RUSTDEV_ISA`` takes one."""
    return _rustdev.instruction_sets()


def get_num_threads() -> int:
    """Return the number of threads that the devices compute with."""
    return _rustdev.num_threads()


def set_num_threads(count: int) -> None:
    """Set the number of threads that the devices compute with (at the start: ``RUSTDEV_NUM_THREADS``).

    Args:
        count: At least 1.

    Raises:
        ValueError: The number cannot be had.
    """
    _rustdev.set_num_threads(count)
