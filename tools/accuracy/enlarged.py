"""Calls of PyTorch's operator database with a dimension of the tensors repeated to many elements."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
from rustdev_conformance.database import op_db
from torch.utils import _pytree as pytree

from .measure import Call

#: Maximum number of elements of a tensor or of a result.
MAX_ELEMENTS = 1 << 20
#: Maximum number of calls per operator, dtype and number of terms.
MAX_CALLS = 4
#: Number of samples of an operator that are used.
SAMPLES = 3
#: Prefixes of operators with random or uninitialized values, and of decompositions, which take cubic time.
LEFT_OUT = (
    "empty", "new_empty", "normal", "uniform", "rand", "bernoulli", "multinomial", "cauchy", "geometric", "exponential",
    "log_normal", "nn.functional.dropout", "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout",
    "nn.functional.rrelu", "nn.functional.fractional_max_pool", "nn.functional.multi_head_attention", "pca_lowrank", "svd_lowrank",
    "linalg.", "svd", "qr", "geqrf", "lu", "cholesky", "pinverse", "logdet", "ormqr", "triangular_solve", "matrix_exp",
    "combinations", "cartesian_prod", "jiterator", "_refs.",
)  # fmt: skip
#: Exceptions from LEFT_OUT.
NOT_LEFT_OUT = tuple(f"linalg.{name}" for name in ("vector_norm", "norm", "vecdot", "multi_dot", "cross", "vander", "diagonal"))


def names() -> list[str]:
    """Return the names of the chosen operators, with their variants."""
    return sorted({name_of(op) for op in op_db if op.name in NOT_LEFT_OUT or not op.name.startswith(LEFT_OUT)})


def name_of(op: Any) -> str:
    """Return the name of an operator with its variant, if any."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def calls(name: str, terms: int, dtype: torch.dtype) -> Iterator[Call]:
    """Yield calls of an operator with about ``terms`` elements along a dimension, if it supports the dtype."""
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
                if elements(op, larger) <= MAX_ELEMENTS:
                    yield Call(name, terms, lambda args, kwargs, op=op: op(*args, **kwargs), larger, op.supports_autograd)


def elements(op: Any, tree: Any) -> int:
    """Return the number of elements of the largest result of a call; 0 if it cannot be computed on the meta device."""
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda leaf: leaf.to("meta"), tree)
    try:
        results = pytree.tree_leaves(op(*args, **kwargs))
    except Exception:  # the sizes depend on values, or there is no meta kernel
        return 0
    return max((result.numel() for result in results if isinstance(result, torch.Tensor)), default=0)


def enlarged(tree: Any, terms: int) -> Iterator[Any]:
    """Yield copies of a tree with a dimension repeated: in tensors with this size at its index, from either end, or anywhere."""
    found = [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided]
    first = next((leaf for leaf in found if leaf.dim() > 0), None)
    if first is None:
        return
    for place, size in reversed([it for it in enumerate(first.shape) if it[1] > 0]):
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
                if leaf.numel() * math.prod(times) > MAX_ELEMENTS:
                    raise OverflowError
                return leaf.detach().repeat(times) if times else leaf.detach()

            try:
                yield pytree.tree_map(repeat, tree)
            except OverflowError:
                continue
