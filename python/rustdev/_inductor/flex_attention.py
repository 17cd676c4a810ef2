"""FlexAttention on the device.

PyTorch refuses devices that it does not know, and compiles FlexAttention to templates for CUDA and for the CPU. On this device it
is the dense computation that PyTorch gives for every device, of scores (B, H, Lq, Lk), eager and compiled, forward and backward:
compiled code has its operators in place of the template, so that Inductor fuses what they allow. Block masks are right, but save
neither time nor memory.
"""

import functools
import importlib
import types
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch._C import DispatchKey, DispatchKeySet, _ExcludeDispatchKeyGuard

from .._name import NAME

__all__ = ["allow"]

_AUTOCAST: DispatchKey = DispatchKey.AutocastPrivateUse1  # type: ignore[attr-defined]


def allow(module: ModuleType) -> None:
    """Let FlexAttention take tensors of the device.

    Args:
        module: ``torch.nn.attention.flex_attention``.
    """
    # The package has the operator by the name of its module.
    operators = importlib.import_module("torch._higher_order_ops.flex_attention")
    from torch._subclasses.functional_tensor import FunctionalTensorMode

    # The traced function has the globals of PyTorch's module.
    validate, name = module._validate_device, NAME

    def _validate_device(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if query.device.type != name:
            validate(query, key, value)

    # Dynamo does not trace functions of this package's files.
    code = _validate_device.__code__.replace(co_filename=validate.__code__.co_filename)
    traced = types.FunctionType(code, validate.__globals__, closure=_validate_device.__closure__)
    module._validate_device = traced  # type: ignore[attr-defined]
    forward, backward = operators.flex_attention, operators.flex_attention_backward
    forward.py_impl(_AUTOCAST)(functools.partial(_in_autocast_dtype, forward))
    backward.py_impl(_AUTOCAST)(functools.partial(_below_autocast, backward))
    for operator, dense in ((forward, operators.sdpa_dense), (backward, operators.sdpa_dense_backward)):
        table = operator.python_key_table
        table[FunctionalTensorMode] = _traced(table[FunctionalTensorMode], dense)


def _below_autocast(operator: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with _ExcludeDispatchKeyGuard(DispatchKeySet(_AUTOCAST)):
        return operator(*args, **kwargs)


def _in_autocast_dtype(
    operator: Callable[..., Any], query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **kwargs: Any
) -> Any:
    """Cast query, key and value as autocast casts the operands of attention, then call the operator."""
    dtype = torch.get_autocast_dtype(NAME)
    cast = [
        operand.to(dtype) if operand.is_floating_point() and operand.dtype != torch.float64 else operand
        for operand in (query, key, value)
    ]
    return _below_autocast(operator, *cast, *args, **kwargs)


def _traced(trace: Callable[..., Any], dense: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that traces the operator's dense computation for tensors of the device, and itself for others."""

    @functools.wraps(trace)
    def run(mode: Any, query: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if query.device.type != NAME:
            return trace(mode, query, *args, **kwargs)
        with mode:
            return dense(query, *args, **kwargs)

    return run
