"""Comparison of calculations on PyTorch's CPU device and on rustdev, for the programs in ``examples/``."""

import functools
import inspect
import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

#: Tolerance relative to the greatest number of a result: sums in another order accumulate over layers.
TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-7, torch.bfloat16: 2e-2, torch.float16: 5e-3}
#: Whether models on the device are compiled.
IS_COMPILED = "PROGRAMS_COMPILED" in os.environ


def moved(value: Any, device: str) -> Any:
    """Return the value with all of its tensors on a device."""
    return pytree.tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, value)


class HostNumbers(TorchFunctionMode):
    """Function mode in which random numbers are drawn on the CPU for every device."""

    FACTORIES = frozenset({torch.rand, torch.randn, torch.randint, torch.randperm, torch.normal})
    FUNCTIONS = frozenset({
        torch.rand_like, torch.randn_like, torch.randint_like, torch.bernoulli, torch.multinomial, torch.poisson, torch.dropout,
        torch.nn.functional.dropout, torch.nn.functional.dropout2d, torch._standard_gamma, torch._sample_dirichlet,
    })  # fmt: skip
    IN_PLACE = frozenset(
        getattr(torch.Tensor, name)
        for name in ("uniform_", "normal_", "bernoulli_", "random_", "exponential_", "geometric_", "cauchy_", "log_normal_")
    )

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Draw on the CPU and move the result."""
        kwargs = kwargs or {}
        if func in self.FACTORIES and kwargs.get("device") is not None:
            return func(*args, **kwargs | {"device": "cpu"}).to(kwargs["device"])
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
        if tensors and (func in self.FUNCTIONS or func is torch.normal):
            kwargs = {name: value for name, value in kwargs.items() if name != "device"}
            return func(*moved(args, "cpu"), **moved(kwargs, "cpu")).to(tensors[0].device)
        if func in self.IN_PLACE:
            return args[0].copy_(func(args[0].detach().cpu(), *args[1:], **kwargs))
        return func(*args, **kwargs)


def agree(calculate: Callable[[str], Any], tolerance: float | None = None) -> None:
    """Assert that a function returns equal tensors and numbers for "cpu" and "rustdev", and that the latter are on the device."""
    answers = []
    for device in ("cpu", "rustdev"):
        torch.manual_seed(0)
        np.random.seed(0)
        random.seed(0)
        with HostNumbers():
            answers.append(calculate(device))
    wanted, found = ([leaf for leaf in pytree.tree_leaves(answer) if leaf is not None] for answer in answers)
    assert len(wanted) == len(found) > 0
    assert any(isinstance(leaf, torch.Tensor) and leaf.device.type == "rustdev" for leaf in found), "nothing is on the device"
    for index, (theirs, mine) in enumerate(zip(wanted, found, strict=True)):
        near(torch.as_tensor(theirs), torch.as_tensor(mine), tolerance, f"result {index}")


def agrees(tolerance: float | None = None) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Return a decorator that makes a test of a function of ``device`` and of arguments that pytest gives, see `agree`."""

    def decorate(calculate: Callable[..., Any]) -> Callable[..., None]:
        @functools.wraps(calculate)
        def test(**given: Any) -> None:
            agree(lambda device: calculate(device, **given), tolerance)

        signature = inspect.signature(calculate)
        others = [parameter for name, parameter in signature.parameters.items() if name != "device"]
        setattr(test, "__signature__", signature.replace(parameters=others))  # noqa: B010 - no type of functions has it
        return test

    return decorate


def near(theirs: Tensor, mine: Tensor, tolerance: float | None, name: str) -> None:
    """Assert that two results are equal within a tolerance, relative to the greatest number."""
    assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype), name
    theirs, mine = (it.detach().cpu() if it.layout is torch.strided else it.detach().cpu().to_dense() for it in (theirs, mine))
    allowed = 0.0
    if theirs.is_floating_point() or theirs.is_complex():
        allowed = TOLERANCE.get(theirs.dtype, 1e-3) if tolerance is None else tolerance
        allowed *= max(float(theirs.nan_to_num(0, 0, 0).abs().max()) if theirs.numel() else 0.0, 1e-6)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=allowed, equal_nan=True, msg=lambda text: f"{name} differs: {text}")


def trained(
    make: Callable[[], nn.Module],
    *inputs: Any,
    call: Callable[..., Any] | None = None,
    tolerance: float | None = None,
    **named: Any,
) -> None:
    """Assert that a model's results, gradients and weights after a step of SGD are equal on both devices.

    Args:
        make: Makes the model on the CPU.
        inputs: Positional arguments of the model.
        call: Function of the model and the inputs that returns the results. Default: calls the model.
        tolerance: See `near`.
        named: Keyword arguments of the model.
    """

    def calculate(device: str) -> Any:
        program = make().to(device)
        weights = [name for name, weight in program.named_parameters() if weight.requires_grad]
        arguments, keywords = moved(inputs, device), moved(named, device)
        torch._dynamo.reset()
        called = torch.compile(program) if IS_COMPILED and device != "cpu" else program
        answer = call(called, *arguments, **keywords) if call else called(*arguments, **keywords)
        results = [leaf for leaf in pytree.tree_leaves(answer) if isinstance(leaf, torch.Tensor)]
        losses = [result.float().pow(2).mean() for result in results if result.requires_grad]
        torch.stack(losses).sum().backward()
        parameters = dict(program.named_parameters())
        gradients = [parameters[name].grad for name in weights]
        # Gradients are scaled by the greatest of all: some are mere rounding errors of zero.
        scale = max(float(gradient.abs().max()) for gradient in gradients if gradient is not None)
        scaled = [gradient / scale for gradient in gradients if gradient is not None]
        torch.optim.SGD(program.parameters(), lr=0.1).step()
        flat = torch.cat([gradient.flatten() for gradient in scaled])
        return results, flat, torch.cat([parameters[name].detach().flatten() for name in weights])

    agree(calculate, tolerance)
