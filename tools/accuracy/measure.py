"""Errors of a call's results and gradients, in steps of the dtype, on the device and on the CPU."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

#: So many steps (units in the last place) away from the exact result counts as its rounding and that of a few steps on the way.
STEPS = 3.0
#: An error may be so many times what roundings of the inputs alone do to the exact result.
LUCK = 4.0


@dataclass
class Call:
    """A call: a function of a tree of tensors, whose floating-point ones are in the dtype that is looked at."""

    name: str
    terms: int
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    #: What of the arguments has a gradient: tensors by identity.
    differentiable: bool = True


@dataclass
class Error:
    """How far a tensor is from the exact one, in steps: at most, anywhere in it."""

    name: str
    terms: int
    dtype: str
    what: str
    device: float
    cpu: float
    #: What roundings of the inputs do.
    moved: float

    @property
    def is_finding(self) -> bool:
        """Whether it exceeds the rounding of the result."""
        return not self.device <= max(STEPS, LUCK * self.moved)

    @property
    def is_worse(self) -> bool:
        """Whether the CPU's is less."""
        return self.is_finding and not self.device <= 2 * self.cpu


def steps(found: Tensor, exact: Tensor, dtype: torch.dtype) -> float:
    """Return how many steps of a dtype two tensors are apart, counted about their magnitudes, or that of the usual element."""
    exact, found = exact.detach().double(), found.detach().double().cpu()
    if found.shape != exact.shape:
        return math.inf
    limits = torch.finfo(dtype)
    counts = exact.to(dtype).isfinite()
    if not bool(counts.any()):
        return 0.0
    found, exact = found[counts], exact[counts]
    magnitude = exact.abs().clamp(min=float(exact.abs().mean())).clamp(limits.smallest_normal, limits.max)
    _, exponent = torch.frexp(magnitude)
    apart = (found - exact).abs() / (torch.exp2(exponent.double() - 1) * limits.eps)
    return float(apart.nan_to_num(nan=math.inf, posinf=math.inf).max())


def tensors(tree: Any) -> list[Tensor]:
    """Return the floating-point tensors of a result."""
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


def results(call: Call, convert: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """Return the results and gradients of a call whose tensors are converted first."""

    def moved(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        made = convert(leaf.detach())
        return made.requires_grad_() if call.differentiable and made.is_floating_point() else made

    arguments = pytree.tree_map(moved, call.arguments)
    outputs = [out for out in tensors(call.function(*arguments)) if out.layout is torch.strided]
    found = {f"result {number}": out.detach() for number, out in enumerate(outputs)}
    outputs = [out for out in outputs if out.requires_grad]
    inputs = [leaf for leaf in tensors(arguments) if leaf.requires_grad]
    if outputs and inputs:
        generator = torch.Generator().manual_seed(1)
        weights = [(torch.rand(out.shape, generator=generator) / 2 + 0.5).bfloat16().half() for out in outputs]
        cotangents = [convert(weight).to(out.dtype) for weight, out in zip(weights, outputs, strict=True)]
        gradients = torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True)
        named = [(number, it) for number, it in enumerate(gradients) if it is not None and it.layout is torch.strided]
        found |= {f"gradient {number}": gradient for number, gradient in named}
    return found


def errors(call: Call, dtype: torch.dtype, device: str) -> list[Error]:
    """Return how far each result and gradient is from the exact one.

    Raises:
        Exception: what the call raises in float64; in 16 bits on the CPU that is an infinite error.
    """
    generator = torch.Generator().manual_seed(0)

    def wide(leaf: Tensor) -> Tensor:
        return leaf.double() if leaf.is_floating_point() else leaf.clone()

    def nudged(leaf: Tensor) -> Tensor:
        if not leaf.is_floating_point():
            return leaf.clone()
        noise = torch.rand(leaf.shape, generator=generator, dtype=torch.float64) - 0.5
        return leaf.double() * (1 + torch.finfo(dtype).eps * noise)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact = results(call, wide)
        moved = results(call, nudged)
        try:
            theirs = results(call, torch.Tensor.clone)
        except (RuntimeError, NotImplementedError):
            theirs = {}
        mine = results(call, lambda leaf: leaf.to(device, copy=True))
    found = []
    for what, reference in exact.items():
        if what not in mine or mine[what].dtype is not dtype:
            continue
        apart = [steps(it[what], reference, dtype) if what in it else math.inf for it in (mine, theirs, moved)]
        found.append(Error(call.name, call.terms, str(dtype).removeprefix("torch."), what, *apart))
    return found
