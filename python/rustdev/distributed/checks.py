"""What operations ask of their tensors, refused at the call: later there would be nobody to tell."""

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = [
    "are_equal_parts",
    "byte_counts",
    "check_message",
    "check_multiple",
    "check_pair",
    "check_root",
    "check_same_length",
    "check_tag",
    "check_tensors",
    "common_device",
    "only",
    "only_list",
    "same_sizes",
]

_STRIDED = torch.strided


def check_tensors(tensors: Sequence[Tensor]) -> int:
    """Refuse tensors that cannot be sent as they lie in memory.

    Returns:
        The index of the device of all of them.

    Raises:
        ValueError: There are none, or they are elsewhere or of several devices, or one is not dense.
    """
    device = common_device(tensors)
    for tensor in tensors:
        _check_dense(tensor)
    return device


def common_device(tensors: Sequence[Tensor]) -> int:
    """Return the index of the device of all tensors.

    Raises:
        ValueError: There are none, or they are elsewhere or of several devices.
    """
    if not tensors:
        raise ValueError("rdccl needs at least one tensor")
    device = tensors[0].device
    for tensor in tensors:
        if tensor.device != device or device.type != "rustdev":
            raise ValueError(f"rdccl needs tensors of one rustdev device, but got tensors of {device} and {tensor.device}")
    return device.index


def _check_dense(tensor: Tensor) -> None:
    """Refuse what is not one run of memory, in whatever order of dimensions."""
    if tensor.layout is not _STRIDED:
        raise ValueError(f"rdccl needs dense tensors, but got one of layout {tensor.layout}")
    if not (tensor.is_contiguous() or torch.ops.aten.is_non_overlapping_and_dense(tensor)):
        raise ValueError("Tensors must be contiguous: rdccl sends memory as it lies, call contiguous()")


def check_root(rank: int, ranks: int) -> None:
    """Refuse a root that is no rank of the group.

    Raises:
        ValueError: It is none.
    """
    if not 0 <= rank < ranks:
        raise ValueError(f"invalid root rank: {rank} of a group of {ranks}")


def check_message(rank: int, own: int, ranks: int, tag: int) -> None:
    """Refuse a message that no other rank of the group could have.

    Raises:
        ValueError: The rank is this one, or none.
        RuntimeError: The tag is negative.
    """
    if rank == own or not 0 <= rank < ranks:
        raise ValueError(f"invalid rank: rank {own} of a group of {ranks} has no messages with rank {rank}")
    check_tag(tag)


def check_tag(tag: int) -> None:
    """Refuse a tag that Gloo does not take.

    Raises:
        RuntimeError: It is negative.
    """
    if tag < 0:
        raise RuntimeError(f"Tag must be nonnegative, but is {tag}")


def check_same_length(name: str, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
    """Refuse lists of which one is longer than the other.

    Raises:
        ValueError: One is.
    """
    if len(outputs) != len(inputs):
        raise ValueError(f"{name} needs as many outputs as inputs, but got {len(outputs)} and {len(inputs)}")


def only(tensors: Sequence[Tensor]) -> Tensor:
    """Return the tensor of a list of one; longer lists were for several devices of one process.

    Raises:
        ValueError: There is another number of tensors.
    """
    if len(tensors) != 1:
        raise ValueError(f"rdccl takes one tensor for each rank, but got {len(tensors)}")
    return tensors[0]


def only_list(name: str, lists: Sequence[list[Tensor]]) -> list[Tensor]:
    """Return the list of a list of one, as ``only``.

    Raises:
        RuntimeError: There is another number of lists.
    """
    if len(lists) != 1:
        raise RuntimeError(f"{name} takes one list of tensors for each rank, but got {len(lists)}")
    return lists[0]


def same_sizes(name: str, one: Tensor, others: Sequence[Tensor], ranks: int) -> bool:
    """Check the tensors of all ranks against this rank's.

    Returns:
        Whether all have its number of elements.

    Raises:
        RuntimeError: They are not as many as ranks.
        ValueError: Memory would be read in another order than it was written.
        TypeError: Another dtype.
    """
    if len(others) != ranks:
        raise RuntimeError(f"{name} needs a tensor for each of the {ranks} ranks, but got {len(others)}")
    for other in others:
        check_pair(name, one, other)
    return all(other.numel() == one.numel() for other in others)


def are_equal_parts(name: str, own: Tensor, parts: Sequence[Tensor], rank: int, ranks: int) -> bool:
    """Check a list with a part for each rank against what this rank has of its own.

    Returns:
        Whether all parts have one number of elements.

    Raises:
        RuntimeError: They are not as many as ranks.
        ValueError: This rank's part is of another size, or memory would be read in another order than it was written.
        TypeError: Another dtype.
    """
    is_equal = same_sizes(name, own, parts, ranks)
    if parts[rank].numel() != own.numel():
        raise ValueError(f"{name} has {own.numel()} elements of its own rank, but {parts[rank].numel()} in its list")
    return is_equal


def check_pair(name: str, one: Tensor, other: Tensor) -> None:
    """Refuse tensors of which one cannot be the memory of the other.

    Raises:
        TypeError: They differ in dtype.
        ValueError: They lie in another order.
    """
    if one.dtype != other.dtype:
        raise TypeError(f"{name} needs tensors of one dtype, but got {one.dtype} and {other.dtype}")
    if not (one.is_contiguous() and other.is_contiguous()) and one.stride() != other.stride():
        raise ValueError(f"{name} sends memory as it lies: the tensors must be contiguous or have the same strides")


def check_multiple(name: str, whole: Tensor, part: Tensor, ranks: int) -> None:
    """Refuse a tensor that is not as long as the parts of all ranks.

    Raises:
        TypeError: They differ in dtype.
        ValueError: They differ in size.
    """
    if whole.dtype != part.dtype:
        raise TypeError(f"{name} needs tensors of one dtype, but got {whole.dtype} and {part.dtype}")
    if whole.numel() != part.numel() * ranks:
        raise ValueError(f"{name} needs {ranks} times the elements on one side, but got {whole.numel()} and {part.numel()}")


def byte_counts(name: str, tensor: Tensor, rows: Sequence[int], ranks: int) -> list[int]:
    """Return how many bytes of a tensor each rank has, of numbers of rows or of none for equal parts.

    Raises:
        ValueError: The rows are not those of the tensor.
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
