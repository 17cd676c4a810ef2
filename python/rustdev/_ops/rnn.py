"""Autograd of the recurrent layers ``rustdev::lstm_layer``, ``gru_layer``, ``rnn_tanh_layer`` and ``rnn_relu_layer``.

Where autograd has to record a layer, the shim (``shim/ops/choices.cpp``) calls ``rustdev::_recorded_layer``.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .registration import past_torch_function

_library = torch.library.Library("rustdev", "FRAGMENT")
_library.define("_recorded_layer(Tensor input, Tensor[] weights, Tensor[] states, bool reverse, str layer) -> Tensor[]")

#: The layer, its backward, and PyTorch's network, by the layer's name.
_OPERATORS = {
    f"rustdev::{kind}_layer": (
        getattr(torch.ops.rustdev, f"{kind}_layer").default,
        getattr(torch.ops.rustdev, f"{kind}_layer_backward").default,
        getattr(torch.ops.aten, kind).input,
    )
    for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu")
}


def _composed(network: Any, x: Tensor, weights: list[Tensor], states: list[Tensor], reverse: bool) -> list[Tensor]:
    """Return the output and the last states of a layer, computed by PyTorch's cells."""
    first = [state.unsqueeze(0) for state in states]
    flipped = x.flip(0) if reverse else x
    hx = first if len(first) > 1 else first[0]
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    output, *last = network._op_dk(key, flipped, hx, weights, len(weights) == 4, 1, 0.0, False, False, False)
    return [output.flip(0) if reverse else output, *(state.squeeze(0) for state in last)]


class _Layer(torch.autograd.Function):
    """A layer in one direction. ``tensors`` are the input, the weights and, last, the states."""

    @staticmethod
    def forward(ctx: Any, name: str, num_states: int, reverse: bool, *tensors: Tensor) -> Any:
        x, weights, states = tensors[0], tensors[1:-num_states], tensors[-num_states:]
        with torch._C._AutoDispatchBelowADInplaceOrView():
            output, *others = _OPERATORS[name][0](x, weights, states, reverse)
            # Cloned, because the last states are views of other outputs.
            last = [state.clone() for state in others[:num_states]]
        ctx.save_for_backward(*tensors, output, *others[num_states:])
        ctx.layer, ctx.num_states, ctx.reverse, ctx.given = name, num_states, reverse, len(tensors)
        return (output, *last)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        with torch._C.DisableTorchFunction():
            saved = ctx.saved_tensors  # unpacked by each use
            tensors, results = saved[: ctx.given], saved[ctx.given :]
            layer = tensors[0], list(tensors[1 : -ctx.num_states]), list(tensors[-ctx.num_states :])
            _, backward, network = _OPERATORS[ctx.layer]
            if torch.is_grad_enabled():
                # For second derivatives: recomputed with PyTorch's cells.
                wanted = [tensor for tensor in tensors if tensor.requires_grad]
                outputs = _composed(network, *layer, ctx.reverse)
                of_wanted = iter(
                    torch.autograd.grad(outputs, wanted, grads, retain_graph=True, create_graph=True, allow_unused=True)
                )
                found = [next(of_wanted) if tensor.requires_grad else None for tensor in tensors]
            else:
                with torch._C._AutoDispatchBelowADInplaceOrView():
                    found = backward(grads, *layer, results, ctx.reverse, ctx.needs_input_grad[3:])
            return None, None, None, *found[: ctx.given]


def _recorded_layer(x: Tensor, weights: Sequence[Tensor], states: Sequence[Tensor], reverse: bool, layer: str) -> list[Tensor]:
    return list(_Layer.apply(layer, len(states), reverse, x, *weights, *states))


_library.impl("_recorded_layer", past_torch_function(_recorded_layer), "CompositeImplicitAutograd")
