"""What operations ask of their tensors, refused at the call: later there would be nobody to tell."""

from collections.abc import Sequence

from torch import Tensor

__all__ = ["byte_counts", "check_multiple", "check_pair", "only", "only_list", "same_sizes"]


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
    if len(rows) != ranks or sum(rows) != length:
        raise ValueError(f"{name} needs split sizes of {ranks} ranks that sum up to {length} rows, but got {list(rows)}")
    row = tensor.nbytes // length if length else 0
    return [count * row for count in rows]
