"""PyTorch's samples (OpInfo) of every operator, with gradients: a replay with new inputs is bitwise equal to a call with them."""

from functools import partial
from typing import Any

import pytest
import torch
from rustdev_conformance.database import op_db
from torch.utils import _pytree as pytree

#: Their results are what memory holds.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
CASES = [op for op in op_db if op.name not in UNDEFINED and torch.float32 in op.supported_dtypes("cpu")]
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
#: Operators that are called without gradients: there are none, or the call with them is not captured.
ALONE = [op for op in CASES if not op.supports_autograd or op.formatted_name in FALLS_BACK or op.name in READS_VALUES | ON_THE_HOST]


def leaves(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def moved(leaf: Any) -> Any:
    return leaf.detach().to("rustdev").requires_grad_(leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf


def forward_and_backward(op: Any, sample: Any) -> list[torch.Tensor]:
    first, args, kwargs = sample
    results = leaves(op(first, *args, **kwargs))
    outputs, inputs = ([tensor for tensor in tensors if tensor.requires_grad] for tensors in (results, leaves(sample)))
    if outputs and inputs:
        results += torch.autograd.grad(outputs, inputs, [torch.ones_like(it) for it in outputs], allow_unused=True)
    return [tensor.detach() for tensor in results if tensor is not None]


@torch.no_grad()
def renew(tensors: list[torch.Tensor], originals: list[torch.Tensor]) -> None:
    """Give tensors values of the same kind in another order; matrices, which may have to be regular, their own."""
    for tensor, original in zip(tensors, originals, strict=True):
        is_square = original.dim() > 1 and original.shape[-1] == original.shape[-2]
        tensor.copy_(original.roll(1, 0) if original.dim() and original.is_floating_point() and not is_square else original)


def refusal(op: Any, requires_grad: bool) -> str:
    """Compare a replay with a call. Return why the call is not captured, if it is not."""
    sample = next(iter(op.sample_inputs("cpu", torch.float32, requires_grad=requires_grad)))
    given = pytree.tree_map(moved, (sample.input, sample.args, sample.kwargs))
    call = partial(forward_and_backward, op, given)
    try:
        call()
    except (RuntimeError, TypeError, AssertionError):
        return "without a kernel of the device, or of the CPU"
    inputs = leaves(given)
    originals = [tensor.detach().clone() for tensor in inputs]
    graph, found = torch.rustdev.Graph(), []
    try:
        with torch.rustdev.graph(graph):
            found = call()
    except RuntimeError as error:
        return str(error)
    renew(inputs, originals)
    graph.replay()
    results = [tensor.cpu() for tensor in found]
    renew(inputs, originals)
    again = [tensor.cpu() for tensor in call()]
    for actual, expected in zip(results, again, strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    return ""


@pytest.mark.parametrize("op", ALONE, ids=lambda op: op.formatted_name)
@pytest.mark.filterwarnings("ignore")
def test_replays_equal_calls(op: Any) -> None:
    why = refusal(op, requires_grad=False)
    assert not why or "without a kernel" in why or "is not permitted while a stream is capturing" in why
    assert (torch.ones(2, device="rustdev") + 1).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("op", [op for op in CASES if op.supports_autograd], ids=lambda op: op.formatted_name)
@pytest.mark.filterwarnings("ignore")
def test_replays_equal_calls_with_gradients(op: Any) -> None:
    why = refusal(op, requires_grad=True)
    assert ("without a kernel" in why) == (op.formatted_name in FALLS_BACK)
    if op.formatted_name not in FALLS_BACK and "setting the state of a generator" not in why:  # by a sample that seeds
        assert (not why) == (op.name not in READS_VALUES | ON_THE_HOST), why
