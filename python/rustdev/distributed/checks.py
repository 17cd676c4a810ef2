"""Checks of the arguments of operations. They raise at the call, because later errors could not be raised in the caller."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .._name import NAME

_STRIDED = torch.strided


def check_tensors(tensors: Sequence[Tensor]) -> int:
    """Check that tensors can be sent as contiguous memory.

    Returns:
        The index of their common device.

    Raises:
        ValueError: If there are no tensors, they are not on one rustdev device, or one is not dense.
    """
    device = common_device(tensors)
    for tensor in tensors:
        _check_dense(tensor)
    return device


def common_device(tensors: Sequence[Tensor]) -> int:
    """Return the index of the common device of tensors.

    Raises:
        ValueError: If there are no tensors, or they are not on one rustdev device.
    """
    if not tensors:
        raise ValueError("rdccl needs at least one tensor")
    device = tensors[0].device
    for tensor in tensors:
        if tensor.device != device or device.type != NAME:
            raise ValueError(f"rdccl needs tensors of one {NAME} device, but got tensors of {device} and {tensor.device}")
    return device.index


def _check_dense(tensor: Tensor) -> None:
    """Raise ValueError for a tensor that is not strided, or not non-overlapping and dense in some order of its dimensions."""
    if tensor.layout is not _STRIDED:
        raise ValueError(f"rdccl needs dense tensors, but got one of layout {tensor.layout}")
    if not (tensor.is_contiguous() or torch.ops.aten.is_non_overlapping_and_dense(tensor)):
        raise ValueError("Tensors must be contiguous: rdccl sends memory as it lies, call contiguous()")


def check_root(rank: int, ranks: int) -> None:
    """Check that a root is a rank of the group.

    Raises:
        ValueError: If it is not.
    """
    if not 0 <= rank < ranks:
        raise ValueError(f"invalid root rank: {rank} of a group of {ranks}")


def check_message(rank: int, own: int, ranks: int, tag: int) -> None:
    """Check the rank and the tag of a message.

    Raises:
        ValueError: If the rank is this rank, or not a rank of the group.
        RuntimeError: If the tag is negative.
    """
    if rank == own or not 0 <= rank < ranks:
        raise ValueError(f"invalid rank: rank {own} of a group of {ranks} has no messages with rank {rank}")
    check_tag(tag)


def check_tag(tag: int) -> None:
    """Check that Gloo accepts a tag.

    Raises:
        RuntimeError: If the tag is negative.
    """
    if tag < 0:
        raise RuntimeError(f"Tag must be nonnegative, but is {tag}")


def check_same_length(name: str, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
    """Check that two lists have the same length.

    Raises:
        ValueError: If they have not.
    """
    if len(outputs) != len(inputs):
        raise ValueError(f"{name} needs as many outputs as inputs, but got {len(outputs)} and {len(inputs)}")


def only(tensors: Sequence[Tensor]) -> Tensor:
    """Return the only tensor of a list. Longer lists are for several devices per process, which is not supported.

    Raises:
        ValueError: If there is not exactly one tensor.
    """
    if len(tensors) != 1:
        raise ValueError(f"rdccl takes one tensor for each rank, but got {len(tensors)}")
    return tensors[0]


def only_list(name: str, lists: Sequence[list[Tensor]]) -> list[Tensor]:
    """Return the only list of a list of lists; see ``only``.

    Raises:
        RuntimeError: If there is not exactly one list.
    """
    if len(lists) != 1:
        raise RuntimeError(f"{name} takes one list of tensors for each rank, but got {len(lists)}")
    return lists[0]


def same_sizes(name: str, one: Tensor, others: Sequence[Tensor], ranks: int) -> bool:
    """Check the list of tensors for all ranks against the tensor of this rank.

    Returns:
        Whether all have the same number of elements as this rank's tensor.

    Raises:
        RuntimeError: If the number of tensors is not the number of ranks.
        ValueError: If the memory order of a tensor differs.
        TypeError: If the dtype of a tensor differs.
    """
    if len(others) != ranks:
        raise RuntimeError(f"{name} needs a tensor for each of the {ranks} ranks, but got {len(others)}")
    for other in others:
        check_pair(name, one, other)
    return all(other.numel() == one.numel() for other in others)


def are_equal_parts(name: str, own: Tensor, parts: Sequence[Tensor], rank: int, ranks: int) -> bool:
    """Check a list with a part for each rank against this rank's own tensor.

    Returns:
        Whether all parts have the same number of elements.

    Raises:
        RuntimeError: If the number of parts is not the number of ranks.
        ValueError: If this rank's part has another number of elements than its own tensor, or the memory order of a part differs.
        TypeError: If the dtype of a part differs.
    """
    is_equal = same_sizes(name, own, parts, ranks)
    if parts[rank].numel() != own.numel():
        raise ValueError(f"{name} has {own.numel()} elements of its own rank, but {parts[rank].numel()} in its list")
    return is_equal


def check_pair(name: str, one: Tensor, other: Tensor) -> None:
    """Check that the memory of one tensor can be received as that of the other.

    Raises:
        TypeError: If the dtypes differ.
        ValueError: If the memory orders differ: both must be contiguous or have the same strides.
    """
    if one.dtype != other.dtype:
        raise TypeError(f"{name} needs tensors of one dtype, but got {one.dtype} and {other.dtype}")
    if not (one.is_contiguous() and other.is_contiguous()) and one.stride() != other.stride():
        raise ValueError(f"{name} sends memory as it lies: the tensors must be contiguous or have the same strides")


def check_multiple(name: str, whole: Tensor, part: Tensor, ranks: int) -> None:
    """Check that a tensor has as many elements as the parts of all ranks together.

    Raises:
        TypeError: If the dtypes differ.
        ValueError: If the sizes do not match.
    """
    if whole.dtype != part.dtype:
        raise TypeError(f"{name} needs tensors of one dtype, but got {whole.dtype} and {part.dtype}")
    if whole.numel() != part.numel() * ranks:
        raise ValueError(f"{name} needs {ranks} times the elements on one side, but got {whole.numel()} and {part.numel()}")


def byte_counts(name: str, tensor: Tensor, rows: Sequence[int], ranks: int) -> list[int]:
    """Return the number of bytes of each rank's part of a tensor.

    Args:
        name: Name of the operation, for errors.
        tensor: Tensor that is split along its first dimension.
        rows: Number of rows of each rank; empty for equal parts.
        ranks: Number of ranks.

    Raises:
        ValueError: If the rows do not sum up to those of the tensor, or cannot be divided equally.
    """
    length = tensor.size(0) if tensor.dim() else tensor.numel()
    if not rows:
        if length % ranks:
            raise ValueError(f"{name} cannot divide {length} rows equally among {ranks} ranks")
        rows = [length // ranks] * ranks
    if len(rows) != ranks or sum(rows) != length or min(rows) < 0:
        raise ValueError(f"{name} needs split sizes of {ranks} ranks that sum up to {length} rows, but got {list(rows)}")
    row = tensor.nbytes // length if length else 0
    return [count * row for count in rows]
