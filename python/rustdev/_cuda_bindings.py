"""Replacements for names of CUDA that bypass function modes and are not in ``torch.cuda``.

These are the bindings ``torch._C._cuda_*``, the constructor of wrapper subclasses, ``torch.accelerator``, and the ``device``
attribute of streams, events, storages and generators.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.storage import TypedStorage, UntypedStorage

from . import _rustdev, graphs, memory, streams
from ._cuda_mode import _as_cuda, _call_mapped, _is_asked_by_pytorch, _mapped, _stand_in_function
from ._name import NAME
from .device import (
    _exchange_device,
    _is_in_bad_fork,
    _maybe_exchange_device,
    can_device_access_peer,
    current_device,
    device_count,
    init,
    set_device,
    synchronize,
)


def _get_current_raw_stream(index: int) -> int:
    return streams.current_stream(index).rustdev_stream


def _nothing(*args: object) -> None:
    pass


#: Functions of ``torch._C`` that programs and libraries call directly instead of ``torch.cuda``.
_BINDINGS: dict[str, Callable[..., Any]] = {
    "_cuda_attach_out_of_memory_observer": memory.attach_out_of_memory_observer,
    "_cuda_canDeviceAccessPeer": can_device_access_peer,
    "_cuda_clearCublasWorkspaces": _nothing,
    "_cuda_emptyCache": memory.empty_cache,
    "_cuda_exchangeDevice": _exchange_device,
    "_cuda_getCurrentRawStream": _get_current_raw_stream,
    "_cuda_getDevice": current_device,
    "_cuda_getDeviceCount": device_count,
    "_cuda_getMemoryFraction": memory.get_per_process_memory_fraction,
    "_cuda_hasPrimaryContext": lambda index: True,
    "_cuda_init": init,
    "_cuda_isCurrentStreamCapturing": graphs.is_current_stream_capturing,
    "_cuda_isInBadFork": _is_in_bad_fork,
    "_cuda_maybeExchangeDevice": _maybe_exchange_device,
    "_cuda_memoryStats": memory.memory_stats_as_nested_dict,
    "_cuda_resetAccumulatedMemoryStats": memory.reset_accumulated_memory_stats,
    "_cuda_resetPeakMemoryStats": memory.reset_peak_memory_stats,
    "_cuda_setDevice": set_device,
    "_cuda_setMemoryFraction": memory.set_per_process_memory_fraction,
    "_cuda_sleep": streams._sleep,
    "_cuda_synchronize": synchronize,
}


def _make_wrapper_subclass() -> Any:
    """Return ``Tensor._make_wrapper_subclass`` with device arguments mapped: function modes do not see its calls."""
    make = torch._C.TensorBase._make_wrapper_subclass

    @functools.wraps(make)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _call_mapped(make, args, kwargs)

    return staticmethod(call)


def _accelerator() -> Iterator[tuple[Any, str, Any]]:
    accelerator = torch.accelerator
    real = accelerator.current_accelerator

    @functools.wraps(real)
    def current_accelerator(check_available: bool = False) -> torch.device | None:
        found = real(check_available)
        return found if found is None or _is_asked_by_pytorch() else _as_cuda(found)

    # Compiled code sees the device as "rustdev", as for ``Tensor.device``.
    current_accelerator._torchdynamo_inline = real  # type: ignore[attr-defined]

    def current_stream(device: Any = None, /) -> streams.Stream:
        return streams.current_stream(_mapped(device))

    yield accelerator, "current_accelerator", current_accelerator
    yield accelerator, "current_stream", current_stream
    for module, name in ((accelerator._utils, "_get_device_index"), (accelerator, "get_device_capability")):
        yield module, name, _stand_in_function(getattr(module, name))


def _device_property(cls: type) -> property:
    """Return a replacement for the property ``device`` of a class that shows user code a "cuda" device."""
    get = cls.device.__get__  # type: ignore[attr-defined]

    def seen(self: Any) -> torch.device:
        found: torch.device = get(self)
        return found if found.type != NAME or not _rustdev.cuda_mode_is_on() or _is_asked_by_pytorch() else _as_cuda(found)

    return property(seen)


class _Generator(torch.Generator):
    """A generator of the device whose ``device`` is shown as by ``_device_property``."""

    device = _device_property(torch.Generator)


def _bindings() -> Iterator[tuple[Any, str, Any]]:
    for name, function in _BINDINGS.items():
        yield torch._C, name, _stand_in_function(function)
    yield torch.Tensor, "_make_wrapper_subclass", _make_wrapper_subclass()
    yield from _accelerator()
    for cls in (UntypedStorage, TypedStorage, streams.Stream, streams.Event):
        yield cls, "device", _device_property(cls)
