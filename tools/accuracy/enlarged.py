"""Calls of PyTorch's operator database, some dimension of whose tensors is repeated until it has many elements."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from .measure import Call

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Elements of a tensor or of a result, at most.
MAX_ELEMENTS = 1 << 20
#: Calls of an operator, a dtype and a number of terms, at most.
MAX_CALLS = 4
#: Samples of an operator that are looked at.
SAMPLES = 3
#: Operators whose values are random or not written, and decompositions, which take the cube of a dimension.
LEFT_OUT = (
    "empty",
    "new_empty",
    "normal",
    "uniform",
    "rand",
    "bernoulli",
    "multinomial",
    "cauchy",
    "geometric",
    "exponential",
    "log_normal",
    "nn.functional.dropout",
    "nn.functional.alpha_dropout",
    "nn.functional.feature_alpha_dropout",
    "nn.functional.rrelu",
    "nn.functional.fractional_max_pool",
    "nn.functional.multi_head_attention",
    "pca_lowrank",
    "svd_lowrank",
    "linalg.",
    "svd",
    "qr",
    "geqrf",
    "lu",
    "cholesky",
    "pinverse",
    "logdet",
    "ormqr",
    "triangular_solve",
    "matrix_exp",
    "combinations",
    "cartesian_prod",
    "jiterator",
    "_refs.",
)
#: Of those the ones that are looked at all the same.
NOT_LEFT_OUT = (
    "linalg.vector_norm",
    "linalg.norm",
    "linalg.vecdot",
    "linalg.multi_dot",
    "linalg.cross",
    "linalg.vander",
    "linalg.diagonal",
)


def names() -> list[str]:
    """Return the names of the operators that are looked at, with those of their variants."""
    return sorted({name_of(op) for op in op_db if is_chosen(op)})


def name_of(op: Any) -> str:
    """Return an operator's name with that of its variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def is_chosen(op: Any) -> bool:
    """Return whether an operator is looked at."""
    return op.name in NOT_LEFT_OUT or not op.name.startswith(LEFT_OUT)


def calls(name: str, terms: int, dtype: torch.dtype) -> Iterator[Call]:
    """Yield calls of an operator with so many terms along a dimension, where the dtype is one of its."""
    for op in op_db:
        if name_of(op) != name or dtype not in op.supported_dtypes("cpu"):
            continue
        torch.manual_seed(0)
        seen: set[tuple[Any, ...]] = set()
        for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), SAMPLES):
            tree = ((sample.input, *sample.args), sample.kwargs)
            for larger in enlarged(tree, terms):
                shapes = tuple(leaf.shape for leaf in pytree.tree_leaves(larger) if isinstance(leaf, torch.Tensor))
                if shapes in seen or len(seen) == MAX_CALLS:
                    continue
                seen.add(shapes)
                if elements(op, larger) > MAX_ELEMENTS:
                    continue
                yield Call(
                    name, terms, lambda args, kwargs, op=op: op(*args, **kwargs), larger, differentiable=op.supports_autograd
                )


def elements(op: Any, tree: Any) -> int:
    """Return how many elements the results of a call have, 0 where they are not known before."""
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda leaf: leaf.to("meta"), tree)
    try:
        results = pytree.tree_leaves(op(*args, **kwargs))
    except Exception:  # values decide, or there is no meta kernel
        return 0
    return max((result.numel() for result in results if isinstance(result, torch.Tensor)), default=0)


def enlarged(tree: Any, terms: int) -> Iterator[Any]:
    """Yield copies of a tree in which a dimension of one size is repeated: of all tensors that have it, by place or by size."""
    found = [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided]
    first = next((leaf for leaf in found if leaf.dim() > 0), None)
    if first is None:
        return
    for place, size in reversed(list(enumerate(first.shape))):
        if size < 1:
            continue
        factor = -(-terms // size)
        for chosen in (
            lambda leaf, dim, place=place: dim == place,
            lambda leaf, dim, place=place: dim - leaf.dim() == place - first.dim(),
            lambda leaf, dim: True,
        ):

            def repeat(leaf: Any, chosen: Any = chosen, size: int = size, factor: int = factor) -> Any:
                if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided:
                    return leaf
                times = [factor if n == size and chosen(leaf, dim) else 1 for dim, n in enumerate(leaf.shape)]
                total = leaf.numel()
                for count in times:
                    total *= count
                if total > MAX_ELEMENTS:
                    raise OverflowError
                return leaf.detach().repeat(times) if times else leaf.detach()

            try:
                yield pytree.tree_map(repeat, tree)
            except OverflowError:
                continue
