"""AdamW whose two moments take one byte for each element: an optimizer for examples/llama_training.py.

    optimizer = AdamW8Bit(model.parameters(), lr=1e-4)

Blocks of 256 elements share a scale in float32. The second moment is stored as its root, rounded up, so that no step divides by a
root that rounding has made smaller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Elements that share a scale.
BLOCK = 256


class AdamW8Bit(torch.optim.Optimizer):
    """AdamW with states of 8 bits.

    Args:
        parameters: Parameters to optimize. Of a DTensor the local part is.
        lr: Learning rate.
        betas: Decay of the moments.
        eps: Added to the root of the second moment.
        weight_decay: Decay of the weights, as a factor of the learning rate.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Take a step; return the loss if there is a closure."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    _update(local(parameter), local(parameter.grad), self.state[parameter], group)
        return loss


def local(tensor: Tensor) -> Tensor:
    """Return the part of a DTensor that this rank has; of another tensor all."""
    part: Tensor = getattr(tensor, "_local_tensor", tensor)
    return part


def _update(parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    if not state:
        blocks = -(-parameter.numel() // BLOCK)
        state["step"] = 0
        for name, dtype in (("mean", torch.int8), ("root", torch.uint8)):
            state[name] = torch.zeros(blocks, BLOCK, dtype=dtype, device=parameter.device)
            state[f"{name}_scale"] = torch.zeros(blocks, 1, dtype=torch.float32, device=parameter.device)
    state["step"] += 1
    (first, second), step = group["betas"], state["step"]
    given = torch.zeros(state["mean"].shape, dtype=torch.float32, device=parameter.device)
    given.view(-1)[: parameter.numel()] = gradient.flatten()
    mean = (state["mean"] * state["mean_scale"]).lerp_(given, 1 - first)
    square = (state["root"] * state["root_scale"]).square_().mul_(second).addcmul_(given, given, value=1 - second)
    root = square.sqrt_()
    for name, values, most in (("mean", mean, 127), ("root", root, 255)):
        scale = values.abs().amax(dim=1, keepdim=True) / most
        state[f"{name}_scale"].copy_(scale)
        scaled = values / scale.clamp_(min=1e-30)
        state[name].copy_(scaled.ceil_().clamp_(max=most) if name == "root" else scaled.round_())
    root.div_((1 - second**step) ** 0.5).add_(group["eps"])
    change = mean.div_(root).mul_(-group["lr"] / (1 - first**step))
    parameter.mul_(1 - group["lr"] * group["weight_decay"])
    parameter.add_(change.view(-1)[: parameter.numel()].view_as(parameter))
