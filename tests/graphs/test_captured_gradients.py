"""Gradients in captures: of full reductions, of trace, and of PyTorch's samples (OpInfo) of every operator."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Callable

DEVICE = "rustdev"
NAN = float("nan")
VALUES = torch.tensor([[3.0, -1.0, 7.0], [7.0, -1.0, 2.0]])


def gradient(function: Callable[[torch.Tensor], Any], x: torch.Tensor) -> torch.Tensor:
    """The gradient of the sum of a function's results, each with another weight."""
    results = [result for result in pytree.tree_leaves(function(x)) if result.is_floating_point()]
    return torch.autograd.grad([(result * 3).sum() for result in results], x)[0]


REDUCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "max": torch.max,
    "min": torch.min,
    "median": torch.median,
    "nanmedian": torch.nanmedian,
    "max along a dimension": lambda x: torch.max(x, 1),
    "min along a dimension": lambda x: torch.min(x, 0),
    "amax": lambda x: torch.amax(x, (0, 1)),
    "aminmax": torch.aminmax,
    "trace": torch.trace,
    "index_fill by a tensor": lambda x: x.index_fill(1, x.new_zeros(1, dtype=torch.long), x.detach().sum()),
}


@pytest.mark.parametrize(
    "values", [[VALUES, VALUES.flip(1)], [VALUES, torch.where(VALUES == 7, NAN, VALUES)]], ids=["finite", "nan"]
)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_gradients_of_reductions_follow_the_values_of_each_replay(name: str, values: list[torch.Tensor]) -> None:
    function = REDUCTIONS[name]
    x = values[0].to(DEVICE).requires_grad_()
    gradient(function, x)
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        found = gradient(function, x)
    for given in values:
        with torch.no_grad():
            x.copy_(given)
        graph.replay()
        torch.testing.assert_close(found.cpu(), gradient(function, given.clone().requires_grad_()), equal_nan=True)


def test_a_second_derivative_of_a_maximum_is_captured() -> None:
    def second(x: torch.Tensor) -> torch.Tensor:
        (first,) = torch.autograd.grad(torch.max(x * x), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)[0]

    x = VALUES.to(DEVICE).requires_grad_()
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        found = second(x)
    graph.replay()
    torch.testing.assert_close(found.cpu(), second(VALUES.clone().requires_grad_()))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:FutureWarning")  # PyTorch's own, at the first jvp
def test_forward_derivatives_of_a_maximum_are_pytorchs() -> None:
    x, direction = VALUES.to(DEVICE), torch.ones_like(VALUES).to(DEVICE)
    for function in (torch.max, torch.min):
        value, slope = torch.func.jvp(function, (x,), (direction,))
        assert (value.item(), slope.item()) == (function(VALUES).item(), 1.0)
        assert torch.equal(torch.func.grad(function)(x).cpu(), torch.func.grad(function)(VALUES))


#: Operators whose gradients read a value on the host, for CUDA as well: zeros among factors, how many elements a mask has.
READS_VALUES = {
    "cov",
    "corrcoef",
    "cumprod",
    "masked_scatter",
    "masked_select",
    "nn.functional.gaussian_nll_loss",
    "prod",
    *(f"linalg.{name}" for name in ("cholesky", "inv", "lu_factor", "solve", "tensorinv", "tensorsolve")),
}
#: Samples that say where the result lies, or lists of the host's as indices.
ON_THE_HOST = {"__getitem__", "masked.cumprod", "masked.cumsum", "to"}
#: PyTorch's CPU kernels compute them at the call, or these samples, which have no elements; or samples that stay on the CPU.
FALLS_BACK = {"cholesky_inverse", "cholesky_solve", "nn_functional_adaptive_avg_pool1d", "nn_functional_adaptive_avg_pool3d"}
FALLS_BACK |= {
    "sparse_sampled_addmm",
    "sparse_mm_reduce",
    "to_sparse",
    "nn_functional_rrelu",
    "tensor_split",
    "_segment_reduce_lengths",
}
FALLS_BACK |= {"svd", "svd_lowrank", "pca_lowrank", "pinverse", "norm_nuc"}
FALLS_BACK |= {
    f"linalg_{name}" for name in ("svd", "svdvals", "cond", "eig", "eigvals", "eigh", "eigvalsh", "polar", "matrix_sqrth")
}
FALLS_BACK |= {f"linalg_{name}" for name in ("lstsq", "lstsq_grad_oriented", "pinv", "pinv_singular", "pinv_hermitian")}
FALLS_BACK |= {
    op.formatted_name
    for op in op_db
    if any(part in op.name for part in ("bessel", "airy", "igamma", "polygamma", "digamma", "frexp"))
}
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
CASES = [op for op in op_db if op.supports_autograd and op.name not in UNDEFINED and torch.float32 in op.supported_dtypes("cpu")]


def leaves(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def moved(leaf: Any) -> Any:
    return leaf.detach().to(DEVICE).requires_grad_(leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf


def forward_and_backward(op: Any, sample: Any) -> list[torch.Tensor]:
    first, args, kwargs = sample
    results = [result for result in leaves(op(first, *args, **kwargs)) if result.requires_grad]
    inputs = [tensor for tensor in leaves(sample) if tensor.requires_grad]
    if not results or not inputs:
        return results
    grads = torch.autograd.grad(results, inputs, [torch.ones_like(result) for result in results], allow_unused=True)
    return [tensor.detach() for tensor in (*results, *grads) if tensor is not None]


@pytest.mark.parametrize("op", CASES, ids=lambda op: op.formatted_name)
@pytest.mark.filterwarnings("ignore")
def test_gradients_of_operators_are_captured(op: Any) -> None:
    sample = next(iter(op.sample_inputs("cpu", torch.float32, requires_grad=True)))
    given = pytree.tree_map(moved, (sample.input, sample.args, sample.kwargs))
    call = partial(forward_and_backward, op, given)
    try:
        call()
    except (RuntimeError, TypeError):
        assert op.formatted_name in FALLS_BACK
        return
    assert op.formatted_name not in FALLS_BACK
    graph, refusal, found = torch.rustdev.Graph(), None, []
    try:
        with torch.rustdev.graph(graph):
            found = call()
    except RuntimeError as error:
        refusal = str(error)
    if refusal is not None and "setting the state of a generator" in refusal:
        return  # the sample seeds
    assert (refusal is None) == (op.name not in READS_VALUES | ON_THE_HOST), refusal
    if refusal is None:
        graph.replay()
        torch.rustdev.synchronize()
        for actual, expected in zip(found, call(), strict=True):
            torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
