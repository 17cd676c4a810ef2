"""The strides of convolution results for fake tensors.

Graphs are traced with fake tensors, whose strides must match those of the device's kernels. PyTorch's fake convolution is always
contiguous for an extension backend. The device's result has the memory format of its input, else of its weight, as on the CPU
(``format`` in ``src/ops/convolution/operator.rs``).
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._prims_common import suggest_memory_format
from torch._subclasses import fake_impls

from .._name import NAME

_aten = torch.ops.aten


def _format(input: torch.Tensor, weight: torch.Tensor) -> torch.memory_format:  # noqa: A002
    batched = input if input.dim() == weight.dim() else input.unsqueeze(0)
    found = suggest_memory_format(batched)
    return suggest_memory_format(weight) if found is torch.contiguous_format else found


def _formatted(result: torch.Tensor, dims: int, memory_format: torch.memory_format) -> torch.Tensor:
    if result.dim() == dims:
        return result.contiguous(memory_format=memory_format)
    return result.unsqueeze(0).contiguous(memory_format=memory_format).squeeze(0)


def _convolution(rule: Callable[..., Any], input_at: int, results: int) -> Callable[..., Any]:
    """Wrap PyTorch's fake implementation of a convolution so that results have the device's strides.

    Args:
        rule: PyTorch's fake implementation.
        input_at: Index of the input among the arguments; the weight follows.
        results: Number of results that have a memory format.
    """

    @functools.wraps(rule)
    def ours(fake_mode: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        made = rule(fake_mode, func, *args, **kwargs)
        given = dict(zip(("input", "weight"), args[input_at:], strict=False)) | kwargs
        input, weight = given["input"], given["weight"]  # noqa: A001
        # conv1d has no other memory format.
        if input.device.type != NAME or weight.dim() not in (4, 5):
            return made
        with fake_mode:
            memory_format = _format(input, weight)
            if isinstance(made, torch.Tensor):
                return _formatted(made, weight.dim(), memory_format)
            first = [None if one is None else _formatted(one, weight.dim(), memory_format) for one in made[:results]]
        return (*first, *made[results:])

    return ours


def install() -> None:
    """Install the wrapped implementations. Other devices still get PyTorch's results."""
    rules = fake_impls.op_implementations_dict
    rules[_aten.convolution.default] = _convolution(rules[_aten.convolution.default], 0, 1)
    rules[_aten.convolution_backward.default] = _convolution(rules[_aten.convolution_backward.default], 1, 2)
