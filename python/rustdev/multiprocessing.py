"""Sharing of device tensors between processes: ``torch.multiprocessing`` sends a handle of the memory, not its contents.

The first send of a tensor makes its part of the pool shareable, and the receiver maps it. docs/processes.md describes the lifetime
of shared memory, and who may write to it when.
"""

import time
import weakref
from collections.abc import Callable
from multiprocessing import context, reduction
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing import reductions
from torch.multiprocessing.reductions import StorageWeakRef, shared_cache, storage_from_cache
from torch.nn.parameter import Parameter

from . import _rustdev
from ._name import NAME
from ._utils import _refuse_in_fork_child
from .streams import Event

__all__ = ["ipc_collect"]

#: How long a send waits for collectives and CPU kernels of other threads that write to the same part of the pool.
_PATIENCE_SECONDS = 30.0
_POLL_SECONDS = 0.001

#: The child process (multiprocessing's Popen) that a tensor is sent to while the child starts, by the number of the send.
#: Sends that such a child has not received when it ends are cancelled.
_to_children: "dict[int, weakref.ref[Any]]" = {}


def _has_ended(reference: "weakref.ref[Any]") -> bool:
    child = reference()
    # Without a pid the process is still being started.
    return child is None or (getattr(child, "pid", None) is not None and child.poll() is not None)


def _collect_from_children() -> None:
    ended = [number for number, child in tuple(_to_children.items()) if _has_ended(child)]
    if ended:
        _rustdev.ipc_cancel(ended)
        for number in ended:
            _to_children.pop(number, None)


def ipc_collect() -> None:
    """Release the memory of deleted tensors that were shared with other processes which have released it or ended."""
    if not _rustdev.is_fork_child():
        _collect_from_children()
        _rustdev.ipc_collect()


def _send(address: int) -> tuple[bytes, int]:
    """Make the memory at an address available to another process.

    Returns:
        The handle of the memory, and the number of the send.

    Raises:
        RuntimeError: If the memory belongs to another process, or other threads do not stop writing to memory next to it.
    """
    _collect_from_children()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (sent := _rustdev.ipc_send(address)) is None:
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"a {NAME} tensor cannot be sent to another process for the first time while a collective or a CPU kernel of "
                f"another thread writes to memory next to it, which has lasted for {_PATIENCE_SECONDS:g} s"
            )
        time.sleep(_POLL_SECONDS)
    # Numbers are reused: the number may still be registered for an earlier send.
    _to_children.pop(sent[1], None)
    child = context.get_spawning_popen()
    if child is not None:
        _to_children[sent[1]] = weakref.ref(child)
    return sent


def _rebuild_storage(handle: bytes | None, number: int, device: int, size: int) -> torch.UntypedStorage:
    if handle is None:
        return torch.UntypedStorage(0, device=torch.device(NAME, device))
    _refuse_in_fork_child()
    key = (handle, size)
    storage: torch.UntypedStorage | None = storage_from_cache(torch.UntypedStorage, key)
    if storage is not None:
        _rustdev.ipc_give_back(handle, number)
        return storage
    address, received = _rustdev.ipc_receive(handle, number)
    storage = torch.ops.rustdev._received(address, size, device, received).untyped_storage()
    shared_cache[key] = StorageWeakRef(storage)
    return storage


def _rebuild_tensor(
    cls: type[Tensor],
    storage: tuple[bytes | None, int, int, int],
    geometry: tuple[int, torch.Size, tuple[int, ...]],
    dtype: torch.dtype,
    requires_grad: bool,
    bits: tuple[bool, bool],
) -> Tensor:
    untyped = _rebuild_storage(*storage)
    offset, size, stride = geometry
    tensor = torch.empty(0, dtype=dtype, device=untyped.device).set_(untyped, offset, size, stride)
    is_conj, is_neg = bits
    if is_conj:
        tensor = torch._conj(tensor)
    if is_neg:
        tensor = torch._neg_view(tensor)
    if cls is Parameter:
        return Parameter(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_(requires_grad)


def _reduce_tensor(tensor: Tensor) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
    if tensor.device.type != NAME or (tensor.requires_grad and not tensor.is_leaf):
        return reductions.reduce_tensor(tensor)  # type: ignore[no-any-return]
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        raise RuntimeError(
            f"{NAME} sends dense tensors to other processes; of sparse, nested and quantized ones, send what they consist of"
        )
    _refuse_in_fork_child()
    torch.utils.hooks.warn_if_has_hooks(tensor)
    untyped = tensor.untyped_storage()
    size = untyped.nbytes()
    handle, number = _send(untyped.data_ptr()) if size else (None, 0)
    storage = (handle, number, tensor.device.index, size)
    geometry = (tensor.storage_offset(), tensor.size(), tensor.stride())
    bits = (tensor.is_conj(), tensor.is_neg())
    return _rebuild_tensor, (type(tensor), storage, geometry, tensor.dtype, tensor.requires_grad, bits)


def _reduce_storage(storage: torch.UntypedStorage) -> Any:
    if storage.device.type == NAME:
        raise RuntimeError(f"Cannot pickle {NAME} storage; try pickling a {NAME} tensor instead")
    return reductions.reduce_storage(storage)


def _rebuild_event(device: torch.device, handle: bytes) -> Event:
    return Event.from_ipc_handle(device, handle)


def _reduce_event(event: Event) -> Any:
    handle = event.ipc_handle()
    return _rebuild_event, (event.device, handle)


def _install() -> None:
    """Register reducers for tensors, parameters, storages and events with the pickler of ``multiprocessing``."""
    for kind in (Tensor, Parameter):
        reduction.register(kind, _reduce_tensor)
    reduction.register(torch.UntypedStorage, _reduce_storage)
    reduction.register(Event, _reduce_event)
