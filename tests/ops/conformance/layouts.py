"""Layouts of arguments, and tensors that share memory."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from rustdev_conformance.compare import is_plain, tensors
from rustdev_conformance.layouts import LAYOUTS, contiguous_strides, relaid
from torch.utils import _pytree as pytree

#: Those of written tensors in which elements share memory: only where the order of writes is all the same, values are defined.
SHARING = {"expanded", "overlapping", "shared", "shifted"}


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
