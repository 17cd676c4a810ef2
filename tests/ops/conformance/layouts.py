"""Layouts of arguments, and tensors that share memory."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from against_cpu import is_plain, tensors
from torch.utils import _pytree as pytree

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
#: Those of written tensors in which elements share memory: only where the order of writes is all the same, values are defined.
SHARING = {"expanded", "overlapping", "shared", "shifted"}


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


def shifted(value: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return copies of two tensors in the same memory, the second an element further than the first."""
    if value.dtype is not target.dtype or min(value.numel(), target.numel()) < 2:
        return None
    memory = torch.zeros(max(value.numel(), target.numel()) + 1, dtype=value.dtype)
    one = memory.as_strided(value.shape, contiguous_strides(list(value.shape)), 0)
    other = memory.as_strided(target.shape, contiguous_strides(list(target.shape)), 1)
    other.copy_(target.detach())
    one.copy_(value.detach())
    return one, other


def without_a_dimension(tree: Any) -> Iterator[tuple[str, Any]]:
    """Yield a tree anew for each dimension of its first tensor, in which that has size 0.

    In the first of two forms that is so for every tensor with those sizes, in the second for the first one alone.
    """
    leaves = list(filter(is_plain, tensors(tree)))
    if not leaves:
        return
    first = leaves[0]
    for dim in range(first.dim()):

        def emptied(value: torch.Tensor, dim: int = dim) -> torch.Tensor:
            return value.detach().narrow(dim, 0, 0).clone().requires_grad_(value.requires_grad)

        alike = {id(leaf) for leaf in leaves if leaf.shape == first.shape}
        for what, chosen in (("all", alike), ("first", {id(first)})):
            if what == "first" and len(alike) == 1:
                continue
            change = pytree.tree_map_only(torch.Tensor, lambda it, chosen=chosen: emptied(it) if id(it) in chosen else it, tree)
            yield f"{what} with size 0 in dimension {dim}", change


def separate(tree: Any) -> Any:
    """Return a tree with each tensor in memory of its own."""
    return pytree.tree_map_only(torch.Tensor, lambda it: it.detach().clone(memory_format=torch.contiguous_format), tree)


def same_values(one: Any, other: Any) -> bool:
    """Return whether two trees have tensors, with the same values."""
    pairs = list(zip(tensors(one), tensors(other), strict=True))
    return bool(pairs) and all(mine.shape == theirs.shape and torch.equal(mine, theirs) for mine, theirs in pairs)


def chance(random: Callable[[], bool], what: str, plain: Callable[[Any], Any], given: Any) -> Callable[[Any], bool]:
    """Return whether the CPU's result is not the only right one: where elements share memory in a layout, ``plain`` has others."""
    apart = separate(given) if what in SHARING else None
    return lambda result: random() or (what in SHARING and not same_values(result, plain(apart)))


def separate_memory(tree: Any) -> Any:
    """Return a copy of a tree whose tensors are no others' memory."""
    return pytree.tree_map_only(torch.Tensor, lambda it: copy.deepcopy(it.detach()), tree)


def replaced(tree: Any, old: torch.Tensor, new: torch.Tensor) -> Any:
    """Return a copy of a tree with one of its tensors replaced."""
    return pytree.tree_map_only(torch.Tensor, lambda it: new if it is old else it, tree)


def with_targets(given: Any, result: Any) -> Iterator[tuple[str, Any]]:
    """Yield arguments beside tensors to write a result to: of each layout, and in the memory of each argument."""
    zeros = pytree.tree_map_only(torch.Tensor, torch.zeros_like, result)
    zeros = tuple(zeros) if isinstance(zeros, tuple | list) else zeros
    for what, layout in LAYOUTS.items():
        target = relaid(zeros, layout)
        if target is not None:
            yield what, (separate_memory(given), target)
    if not isinstance(zeros, torch.Tensor):
        return
    for number, value in enumerate(tensors(given)):
        if not is_plain(value):
            continue
        if value.shape == zeros.shape and value.dtype is zeros.dtype:
            fresh = separate_memory(given)
            yield "shared", (fresh, tensors(fresh)[number].detach())
        pair = shifted(value, zeros)
        if pair is not None:
            yield "shifted", (replaced(given, value, pair[0]), pair[1])
