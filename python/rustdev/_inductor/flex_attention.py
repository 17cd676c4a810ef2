"""FlexAttention on the device, which PyTorch refuses: its registration, autocast, and calls in compiled code.

The kernels are those of ``_ops/flex_attention.py``. In compiled code the operator is one call, which has the graphs of
``score_mod`` and ``mask_mod`` as text, so that Inductor's caches hold it. Where that call is not possible, the dense computation
that PyTorch gives for all devices is compiled, of scores (B, H, Lq, Lk).
"""

import functools
import sys
import types
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch._C import DispatchKey, DispatchKeySet, _ExcludeDispatchKeyGuard
from torch.utils import _pytree as pytree

from .._name import NAME
from .._ops import flex_attention as kernels

__all__ = ["allow", "function", "lower"]

_AUTOCAST: DispatchKey = DispatchKey.AutocastPrivateUse1  # type: ignore[attr-defined]


def allow(module: ModuleType) -> None:
    """Let FlexAttention take tensors of the device.

    Args:
        module: ``torch.nn.attention.flex_attention``.
    """
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
    operators = kernels.operators()
    forward, backward = operators.flex_attention, operators.flex_attention_backward
    forward.py_impl(_AUTOCAST)(functools.partial(_in_autocast_dtype, forward))
    backward.py_impl(_AUTOCAST)(functools.partial(_below_autocast, backward))
    forward.py_impl(DispatchKey.PrivateUse1)(kernels.forward)
    backward.py_impl(DispatchKey.PrivateUse1)(kernels.backward)
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
    """Return a function that traces an operator, or on the device its dense computation where compiled code cannot call it.

    Graphs in C++ call no Python, and PyTorch declares results of float32 for operands of float64 too.
    """

    @functools.wraps(trace)
    def run(mode: Any, query: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        config = sys.modules.get("torch._inductor.config")
        is_called = query.dtype is not torch.float64 and not (config is not None and config.cpp_wrapper)
        if query.device.type != NAME or is_called:
            return trace(mode, query, *args, **kwargs)
        with mode:
            return dense(query, *args, **kwargs)

    return run


@functools.cache
def function(code: str, is_noop: bool) -> Callable[..., Any]:
    """Return the function of a graph, for compiled code.

    Args:
        code: Definitions of ``constants``, a dictionary, and of ``forward``, whose first argument has them as attributes.
        is_noop: Whether the graph is that of ``noop_mask``.
    """
    scope: dict[str, Any] = {name: builtin.obj for name, builtin in torch.fx.graph._custom_builtins.items()}
    exec(code, scope)
    found = functools.partial(scope["forward"], types.SimpleNamespace(**scope["constants"]))
    found.is_noop = is_noop  # type: ignore[attr-defined]
    return found


class _Printed(torch.fx.GraphModule):
    """A graph that compiled code has as text."""

    def __repr__(self) -> str:
        """Return an expression for the graph's function."""
        constants = [
            f"{node.target!r}: torch.tensor({value.tolist()}, dtype={value.dtype}, device={str(value.device)!r})"
            for node in self.graph.find_nodes(op="get_attr")
            for value in (getattr(self, node.target),)
        ]
        code = f"constants = {{{', '.join(constants)}}}\n{self.graph.python_code('self').src}"
        return f"flex_attention_function({code!r}, {kernels.is_noop(self)})"


def lower() -> None:
    """Lower the operators to calls on the device. Called once, when the device is registered with Inductor."""
    from torch._inductor import ir, lowering

    def called(operator: Any, lowered: Callable[..., Any]) -> Callable[..., Any]:
        def lower(query: Any, *args: Any) -> Any:
            if query.get_device().type != NAME:
                return lowered(query, *args)
            args = pytree.tree_map_only(ir.Subgraph, lambda graph: _Printed(graph.graph_module, graph.graph_module.graph), args)
            return pytree.tree_map_only(ir.IRNode, ir.TensorBox.create, ir.FallbackKernel.create(operator, query, *args))

        return lower

    operators = kernels.operators()
    for operator in (operators.flex_attention, operators.flex_attention_backward):
        lowering.lowerings[operator] = called(operator, lowering.lowerings[operator])
