"""Errors of a call's results and gradients on the device and on the CPU, in steps (ulp) of the dtype."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

#: Errors up to this number of steps (ulp) count as rounding of the result and of a few intermediate results.
STEPS = 3.0
#: Errors up to this multiple of the effect of rounding the inputs are accepted.
LUCK = 4.0


@dataclass
class Call:
    """A call of a function with a tree of tensors. Floating-point tensors have the dtype under test."""

    name: str
    terms: int
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    differentiable: bool = True  # whether gradients with respect to the floating-point arguments are compared


@dataclass
class Error:
    """Maximum error of a tensor, in steps."""

    name: str
    terms: int
    dtype: str
    what: str
    device: float
    cpu: float
    moved: float  # change of the exact result by rounding the inputs

    @property
    def is_finding(self) -> bool:
        """Whether the error exceeds the accepted limits."""
        return not self.device <= max(STEPS, LUCK * self.moved)

    @property
    def is_worse(self) -> bool:
        """Whether it is a finding and more than twice the CPU's error."""
        return self.is_finding and not self.device <= 2 * self.cpu


def steps(found: Tensor, exact: Tensor, dtype: torch.dtype) -> float:
    """Return the maximum difference of two tensors, in steps of a dtype at the larger of the exact and the mean magnitude."""
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
    """Return the results and gradients of a call with converted tensors, by name."""

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
    """Return the error of each result and gradient.

    Raises:
        Exception: What the call raises in float64 or on the device. If it raises on the CPU, the CPU's error is infinite.
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
