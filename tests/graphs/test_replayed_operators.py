"""PyTorch's samples (OpInfo) of every operator: a replay with new inputs is bitwise equal to a call with them."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

#: Their results are what memory holds.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
SAMPLES = 1
CASES = [op for op in op_db if op.name not in UNDEFINED and torch.float32 in op.supported_dtypes("cpu")]


def leaves(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def moved(leaf: Any) -> Any:
    return leaf.to("rustdev") if isinstance(leaf, torch.Tensor) else leaf


def renew(tensors: list[torch.Tensor], originals: list[torch.Tensor]) -> None:
    """Give tensors values of the same kind in another order; matrices, which may have to be regular, their own."""
    for tensor, original in zip(tensors, originals, strict=True):
        is_square = original.dim() > 1 and original.shape[-1] == original.shape[-2]
        tensor.copy_(original.roll(1, 0) if original.dim() and original.is_floating_point() and not is_square else original)


def captured(call: Any) -> tuple[torch.rustdev.Graph, Any] | None:
    """Capture a call; None if it waits for a value."""
    graph = torch.rustdev.Graph()
    try:
        with torch.rustdev.graph(graph):
            return graph, call()
    except RuntimeError as error:
        assert "is not permitted while a stream is capturing" in str(error)  # noqa: PT017 - either way is right
        return None


@pytest.mark.parametrize("op", CASES, ids=lambda op: op.formatted_name)
@pytest.mark.filterwarnings("ignore")
def test_replays_equal_calls(op: Any) -> None:
    for sample in list(op.sample_inputs("cpu", torch.float32))[:SAMPLES]:
        first, args, kwargs = pytree.tree_map(moved, (sample.input, sample.args, sample.kwargs))
        call = lambda: op(first, *args, **kwargs)  # noqa: B023, E731 - called within this turn
        try:
            call()
        except (RuntimeError, TypeError, AssertionError):
            continue  # without a kernel of the device, or the sample is of the CPU
        inputs = leaves((first, args, kwargs))
        originals = [tensor.clone() for tensor in inputs]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = captured(call)
        if found is None:
            assert (torch.ones(2, device="rustdev") + 1).tolist() == [2.0, 2.0]
            continue
        graph, result = found
        renew(inputs, originals)
        graph.replay()
        torch.rustdev.synchronize()
        results = [tensor.cpu() for tensor in leaves(result)]
        renew(inputs, originals)
        again = leaves(call())
        torch.rustdev.synchronize()  # copies to the CPU may be on their way
        for actual, expected in zip(results, again, strict=True):
            torch.testing.assert_close(actual, expected.cpu(), rtol=0, atol=0, equal_nan=True)
