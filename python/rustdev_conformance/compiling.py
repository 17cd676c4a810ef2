"""Checks of ``torch.compile``: graphs without code generation, and Inductor's where the device registers its own."""

from collections.abc import Callable
from typing import Any

import torch

from rustdev_conformance.checks import Absent, Device, check


def network() -> torch.nn.Module:
    """Return a small network."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4))


def function(value: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return what several fused loops compute."""
    return (value.sin() * other + value.relu()).sum(-1).softmax(0) - other.mean()


def compare(device: Device, backend: str, made: Callable[[], Any], *sizes: tuple[int, ...]) -> None:
    """Compare a compiled function or module with the same on the CPU without the compiler."""
    torch._dynamo.reset()
    torch.manual_seed(1)
    given = [torch.randn(size) for size in sizes]
    host, there = made(), made()
    there = there.to(device.name) if isinstance(there, torch.nn.Module) else there
    for _ in range(2):
        mine = [it.to(device.name).requires_grad_() for it in given]
        theirs = [it.clone().requires_grad_() for it in given]
        result, expected = torch.compile(there, backend=backend, fullgraph=True)(*mine), host(*theirs)
        assert result.device.type == device.name
        torch.testing.assert_close(result.cpu(), expected)
        grads, wanted = (torch.autograd.grad(it.square().sum(), one) for it, one in ((result, mine), (expected, theirs)))
        for one, other in zip(grads, wanted, strict=True):
            torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-5)


@check("compile/eager", "core")
def eager(device: Device) -> None:
    compare(device, "eager", lambda: function, (6, 5), (6, 5))


@check("compile/aot_eager", "core")
def aot_eager(device: Device) -> None:
    compare(device, "aot_eager", lambda: function, (6, 5), (6, 5))
    compare(device, "aot_eager", network, (3, 8))


def need_inductor(device: Device) -> None:
    """Leave a check of a device for which Inductor generates no code."""
    from torch._inductor.codegen.common import get_scheduling_for_device, init_backend_registration

    init_backend_registration()
    if get_scheduling_for_device(device.name) is None:
        assert not device.offered(["_inductor_backend_init"]), "_inductor_backend_init has registered no code generation"
        raise Absent(f"Inductor has no code generation for {device.name}")


@check("compile/inductor", "core")
def inductor(device: Device) -> None:
    need_inductor(device)
    compare(device, "inductor", lambda: function, (6, 5), (6, 5))


@check("compile/inductor_module", "core")
def inductor_module(device: Device) -> None:
    need_inductor(device)
    compare(device, "inductor", network, (3, 8))


@check("compile/inductor_dynamic", "full")
def inductor_dynamic(device: Device) -> None:
    need_inductor(device)
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="inductor", dynamic=True)
    for size in (4, 7, 33):
        given = [torch.randn(size, 5) for _ in range(2)]
        torch.testing.assert_close(compiled(*(it.to(device.name) for it in given)).cpu(), function(*given))
