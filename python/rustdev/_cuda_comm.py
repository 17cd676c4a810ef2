"""Replacements for ``torch.nn.parallel.comm``: copies between the devices of one process. The originals support only CUDA.

``torch.nn.DataParallel`` calls them. Each copy waits for the current streams of both devices, as copies between GPUs do.
"""

from collections.abc import Sequence

import torch

from ._cuda_mode import _mapped
from ._name import NAME

#: A CUDA device or its index; a negative index means the CPU.
_Device = int | str | torch.device


def _place(device: _Device) -> torch.device:
    if isinstance(device, int):
        return torch.device(NAME, device) if device >= 0 else torch.device("cpu")
    return torch.device(_mapped(device))


def _put(tensors: Sequence[torch.Tensor], out: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return tuple(target.copy_(tensor) for tensor, target in zip(tensors, out, strict=True))


def scatter(
    tensor: torch.Tensor,
    devices: Sequence[_Device] | None = None,
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Sequence[object] | None = None,
    *,
    out: Sequence[torch.Tensor] | None = None,
) -> tuple[torch.Tensor, ...]:
    """Scatter a tensor across devices; see ``torch.nn.parallel.comm.scatter``.

    Args:
        tensor: Tensor to scatter.
        devices: Devices of the chunks. Excludes ``out``.
        chunk_sizes: Sizes of the chunks along ``dim``. Default: equal chunks, as by ``Tensor.chunk``.
        dim: Dimension along which the tensor is split.
        streams: Ignored: the chunks are copied on the current streams.
        out: Tensors that receive the chunks.
    """
    if out is not None:
        return _put(tensor.split([part.size(dim) for part in out], dim), out)
    positions = [_place(device) for device in devices or ()]
    parts = tensor.chunk(len(positions), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    return tuple(part.to(place, non_blocking=True) for part, place in zip(parts, positions, strict=False))


def gather(
    tensors: Sequence[torch.Tensor], dim: int = 0, destination: _Device | None = None, *, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Gather tensors from several devices; see ``torch.nn.parallel.comm.gather``.

    Args:
        tensors: Tensors to concatenate, of equal sizes except in ``dim``.
        dim: Dimension along which the tensors are concatenated.
        destination: Device of the result. Default: the current device.
        out: Tensor that receives the result. Excludes ``destination``.
    """
    place = out.device if out is not None else _place("cuda" if destination is None else destination)
    whole = torch.cat([tensor.to(place) for tensor in tensors], dim)
    return whole if out is None else out.copy_(whole)


def broadcast(
    tensor: torch.Tensor, devices: Sequence[_Device] | None = None, *, out: Sequence[torch.Tensor] | None = None
) -> tuple[torch.Tensor, ...]:
    """Broadcast a tensor to devices. The result for the tensor's own device is the tensor itself.

    Args:
        tensor: Tensor to broadcast.
        devices: Devices of the copies. Excludes ``out``.
        out: Tensors that receive the copies.
    """
    if out is not None:
        return _put([tensor] * len(out), out)
    return tuple(tensor.to(_place(device)) for device in devices or ())


def broadcast_coalesced(
    tensors: Sequence[torch.Tensor], devices: Sequence[_Device], buffer_size: int = 0
) -> list[tuple[torch.Tensor, ...]]:
    """Broadcast a sequence of tensors to devices.

    Args:
        tensors: Tensors to broadcast.
        devices: Devices of the copies.
        buffer_size: Ignored: each tensor is copied separately.

    Returns:
        A tuple of the tensors for each device.
    """
    return [tuple(tensor.to(_place(device)) for tensor in tensors) for device in devices]


def reduce_add(inputs: Sequence[torch.Tensor], destination: _Device | None = None) -> torch.Tensor:
    """Sum tensors from several devices.

    Args:
        inputs: Tensors of equal shape and dtype.
        destination: Device of the sum. Default: the current device.
    """
    place = _place("cuda" if destination is None else destination)
    first, *others = [tensor.to(place) for tensor in inputs]
    total = first.clone()
    for other in others:
        total += other
    return total


def reduce_add_coalesced(
    inputs: Sequence[Sequence[torch.Tensor]], destination: _Device | None = None, buffer_size: int = 0
) -> tuple[torch.Tensor, ...]:
    """Sum sequences of tensors from several devices elementwise.

    Args:
        inputs: Sequence of tensors for each device.
        destination: Device of the sums. Default: the current device.
        buffer_size: Ignored.
    """
    return tuple(reduce_add(tensors, destination) for tensors in zip(*inputs, strict=True))
