"""Copies between the devices of one process, in place of ``torch.nn.parallel.comm``, whose functions move CUDA's memory alone.

``torch.nn.DataParallel`` calls them. Each copy waits for the current streams of both devices, as copies between GPUs do.
"""

from collections.abc import Sequence

import torch

from ._cuda_mode import _mapped

__all__: list[str] = []

#: A device of CUDA's, or its number.
_Device = int | str | torch.device


def _place(device: _Device) -> torch.device:
    if isinstance(device, int):
        return torch.device("rustdev", device) if device >= 0 else torch.device("cpu")
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
    """Cut a tensor along a dimension and put a part on each device; see ``torch.nn.parallel.comm.scatter``.

    Args:
        tensor: ``[..., n, ...]``.
        devices: Where the parts go; or ``out``.
        chunk_sizes: The parts' sizes along ``dim``; default: as equal as can be.
        dim: The dimension.
        streams: Not used: the parts are copied on the current streams.
        out: Tensors that take the parts.
    """
    if out is not None:
        return _put(tensor.split([part.size(dim) for part in out], dim), out)
    positions = [_place(device) for device in devices or ()]
    parts = tensor.chunk(len(positions), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    return tuple(part.to(place, non_blocking=True) for part, place in zip(parts, positions, strict=False))


def gather(
    tensors: Sequence[torch.Tensor], dim: int = 0, destination: _Device | None = None, *, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Put tensors of several devices together along a dimension; see ``torch.nn.parallel.comm.gather``.

    Args:
        tensors: They are equal in all other sizes.
        dim: The dimension.
        destination: Where the result is; default: the current device.
        out: A tensor that takes the result.
    """
    place = out.device if out is not None else _place("cuda" if destination is None else destination)
    whole = torch.cat([tensor.to(place) for tensor in tensors], dim)
    return whole if out is None else out.copy_(whole)


def broadcast(
    tensor: torch.Tensor, devices: Sequence[_Device] | None = None, *, out: Sequence[torch.Tensor] | None = None
) -> tuple[torch.Tensor, ...]:
    """Copy a tensor to devices; the result is the tensor itself where it is already.

    Args:
        tensor: What is copied.
        devices: Where to; or ``out``.
        out: Tensors that take the copies.
    """
    if out is not None:
        return _put([tensor] * len(out), out)
    return tuple(tensor.to(_place(device)) for device in devices or ())


def broadcast_coalesced(
    tensors: Sequence[torch.Tensor], devices: Sequence[_Device], buffer_size: int = 0
) -> list[tuple[torch.Tensor, ...]]:
    """Copy tensors to devices.

    Args:
        tensors: What is copied.
        devices: Where to.
        buffer_size: Not used: each tensor is copied by itself.

    Returns:
        For each device, the tensors.
    """
    return [tuple(tensor.to(_place(device)) for tensor in tensors) for device in devices]


def reduce_add(inputs: Sequence[torch.Tensor], destination: _Device | None = None) -> torch.Tensor:
    """Add tensors of several devices.

    Args:
        inputs: Of one shape and dtype.
        destination: Where the sum is; default: the current device.
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
    """Add the tensors of several devices, one by one.

    Args:
        inputs: For each device, the tensors.
        destination: Where the sums are; default: the current device.
        buffer_size: Not used.
    """
    return tuple(reduce_add(tensors, destination) for tensors in zip(*inputs, strict=True))
