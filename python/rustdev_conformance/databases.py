"""Checks of every module and every optimizer of PyTorch's databases against themselves on the CPU."""

import copy
import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db

from rustdev_conformance.checks import Check, Device, Skipped, add
from rustdev_conformance.compare import gradients
from rustdev_conformance.operators import Comparison

STEPS = 3
#: The modules and optimizers of the level smoke.
SMOKE = (
    "nn.Linear",
    "nn.Conv2d",
    "nn.BatchNorm2d",
    "nn.LayerNorm",
    "nn.LSTM",
    "nn.MultiheadAttention",
    "nn.CrossEntropyLoss",
    "SGD",
    "AdamW",
)
"""Names as of the databases."""


class Entry:
    """An entry of a database that is no operator, as ``Comparison`` takes it."""

    decorators = ()

    def __init__(self, name: str) -> None:
        self.name = name


def called(given: Any, on: str) -> Any:
    """Return the results of a module, and the gradients of its parameters and of its arguments."""
    module, args, kwargs = given
    results = module(*args, **kwargs)
    return results, gradients(results, (list(module.parameters()), args, kwargs))


def modules(info: Any, training: bool, device: Device) -> str:
    """Compare a module's results and gradients."""
    comparison = Comparison(Entry(info.name), device, torch.float32, called)
    made = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training)
    for number, sample in enumerate(itertools.islice(made, device.samples)):
        if sample.forward_input is None:
            continue
        given = sample.constructor_input
        host: Any = info.module_cls(*given.args, **given.kwargs).train(training).to(torch.float32)
        args, kwargs = sample.forward_input.args, sample.forward_input.kwargs
        if hasattr(host, "initialize_parameters"):
            host(*args, **kwargs)
        comparison.hold((host, args, kwargs), f"sample {number}", strides=False)
    return comparison.note()


def train(info: Any, options: dict[str, Any], device: str, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Return the parameters after some steps of an optimizer."""
    generator = torch.Generator().manual_seed(1)
    sizes = ((3, 4), (5,), (10, 10))
    parameters = [torch.randn(size, generator=generator, dtype=dtype).to(device).requires_grad_() for size in sizes]
    options = copy.deepcopy(options)
    for key, value in options.items():
        options[key] = value.to(device) if isinstance(value, torch.Tensor) and value.dim() > 0 else value
    if info.optim_cls is torch.optim.Muon:
        parameters = [parameter for parameter in parameters if parameter.dim() == 2]
    optimizer = info.optim_cls(parameters, **options)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        # A loss that is to be maximized has a maximum.
        loss = torch.stack([((parameter - 1) ** 2).sum() for parameter in parameters]).sum() * (
            -1 if options.get("maximize") else 1
        )
        loss.backward()
        if info.only_supports_sparse_grads:
            for parameter in parameters:
                assert parameter.grad is not None
                parameter.grad = parameter.grad.to_sparse()
        return loss

    for _ in range(STEPS):
        closure()
        optimizer.step(closure) if info.step_requires_closure else optimizer.step()
    return [parameter.detach() for parameter in parameters]


def choices(samples: Iterable[Any], info: Any) -> Iterator[dict[str, Any]]:
    """Yield the options of an optimizer's samples, in the implementations that the CPU has as well."""
    for sample in samples:
        for choice in ({}, *({name: True} for name in info.supported_impls if name != "differentiable")):
            options = {**sample.kwargs, **choice}
            if options.get("capturable") or (options.get("foreach") and options.get("fused")):
                continue
            if not options.get("fused") or (not options.get("differentiable") and "cpu" in info.supports_fused_on):
                yield options


def optimizers(info: Any, device: Device) -> str:
    """Compare the parameters after some steps in each implementation."""
    compared = 0
    for options in choices(itertools.islice(info.optim_inputs_func(device="cpu"), device.samples), info):
        expected, found = (train(info, options, on) for on in ("cpu", device.name))
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one.cpu(), other, msg=functools.partial("{1}, for {0}".format, options))
        compared += 1
    if not compared:
        raise Skipped("the database has no samples")
    return f"{compared} sets of options"


def every() -> Iterator[Check]:
    """Yield the checks of all modules and optimizers."""
    for info in module_db:
        if torch.float32 not in info.dtypes:
            continue
        level = "smoke" if info.name in SMOKE else "core"
        for training in {"eval": False, "train": True}.items():
            yield Check(f"modules/{info.formatted_name}/{training[0]}", functools.partial(modules, info, training[1]), level)
    for optimizer in optim_db:
        name = vars(optimizer)["optim_cls"].__name__
        yield Check(f"optimizers/{name}", functools.partial(optimizers, optimizer), "smoke" if name in SMOKE else "core")


add(every())
