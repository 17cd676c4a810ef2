"""Layouts of arguments: copies of tensors with other strides, with gaps, and far into their memory."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from rustdev_conformance.compare import is_plain

#: Elements before a tensor that is far into its storage.
FAR = 100_003


def contiguous_strides(sizes: list[int], step: int = 1) -> list[int]:
    """Return the strides of a contiguous tensor, of whose memory every ``step``-th element is used."""
    strides = [step] * len(sizes)
    for dim in reversed(range(len(sizes) - 1)):
        strides[dim] = strides[dim + 1] * max(sizes[dim + 1], 1)
    return strides


def laid(value: torch.Tensor, strides: list[int], offset: int = 0) -> torch.Tensor:
    """Return a copy with these strides, that many elements into memory of its own."""
    length = 1 + sum((size - 1) * stride for size, stride in zip(value.shape, strides, strict=True)) if value.numel() else 0
    memory = torch.zeros(offset + length, dtype=value.dtype)
    copy = memory.as_strided(value.shape, strides, offset)
    copy.copy_(value)
    return copy


def ordered(value: torch.Tensor, order: list[int]) -> torch.Tensor:
    """Return a copy whose dimensions lie in memory in this order, the outermost first."""
    inner = contiguous_strides([value.shape[dim] for dim in order])
    strides = dict(zip(order, inner, strict=True))
    return laid(value, [strides[dim] for dim in range(value.dim())])


def expanded(value: torch.Tensor) -> torch.Tensor | None:
    """Return the first of the elements along the outermost dimension that has several, for all of them."""
    dim = next((dim for dim, size in enumerate(value.shape) if size > 1), None)
    return None if dim is None else value.narrow(dim, 0, 1).clone().expand_as(value)


#: By name: a copy of a tensor in this layout, or nothing where it cannot have it.
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor | None]] = {
    "expanded": expanded,
    # Windows of memory, each a place further than the one before.
    "overlapping": lambda it: laid(it, [1] * it.dim()) if sum(size > 1 for size in it.shape) > 1 else None,
    # The last two dimensions are exchanged, all are reversed, or the second is the innermost.
    "transposed": lambda it: ordered(it, [*range(it.dim() - 2), it.dim() - 1, it.dim() - 2]) if it.dim() > 1 else None,
    "permuted": lambda it: ordered(it, list(reversed(range(it.dim())))) if it.dim() > 2 else None,
    "channels_last": lambda it: ordered(it, [0, *range(2, it.dim()), 1]) if it.dim() > 3 else None,
    # Every second element of memory; one element into it; many.
    "stepped": lambda it: laid(it, contiguous_strides(list(it.shape), 2)) if it.dim() else None,
    "misaligned": lambda it: laid(it, contiguous_strides(list(it.shape)), 1),
    "far": lambda it: laid(it, contiguous_strides(list(it.shape)), FAR),
}


def relaid(tree: Any, layout: Callable[[torch.Tensor], torch.Tensor | None]) -> Any:
    """Return a tree with its tensors in a layout, or nothing where none of them can have it."""
    made: dict[int, torch.Tensor] = {}

    def change(value: torch.Tensor) -> torch.Tensor:
        if id(value) not in made:
            copy = layout(value.detach()) if is_plain(value) else None
            if copy is not None:
                made[id(value)] = copy.requires_grad_(value.requires_grad)
        return made.get(id(value), value)

    changed = pytree.tree_map_only(torch.Tensor, change, tree)
    return changed if made else None
