"""Autograd: first and second gradients, devices, threads and torch.func."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional

ops = torch.ops.rustdev


def tensor(*shape: int, device: str = "rustdev", grad: bool = True) -> torch.Tensor:
    """Return random doubles of the device, a leaf of autograd."""
    return torch.randn(*shape, dtype=torch.float64).to(device).requires_grad_(grad)


def angles(length: int, half: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosines and sines."""
    angle = torch.linspace(0, 3, length * half, dtype=torch.float64).reshape(length, half)
    return angle.cos().to("rustdev"), angle.sin().to("rustdev")


def host(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """Return leaves with the same values on the CPU."""
    return [one.detach().cpu().requires_grad_(one.requires_grad) for one in tensors]


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
def test_swiglu_gradients(check: Callable[..., bool]) -> None:
    assert check(ops.swiglu, (tensor(3, 4), tensor(4, 3).t()))
    assert check(lambda gate: ops.swiglu(gate, gate), (tensor(3),))


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
@pytest.mark.parametrize("operator", [ops.rotary, ops.rotary_backward])
def test_rotary_gradients(check: Callable[..., bool], operator: Any) -> None:
    assert check(lambda x: operator(x, *angles(3, 2)), (tensor(2, 3, 4),))


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
def test_the_forward_alone_of_operators_with_gradients(check: Callable[..., bool]) -> None:
    gate, up = tensor(3, 4), tensor(3, 4)
    assert check(ops.geglu, (gate, up))
    torch.testing.assert_close(ops.geglu(gate, up).cpu(), functional.gelu(gate.cpu()) * up.cpu())
    slope = torch.func.grad(lambda gate: ops.geglu(gate, up.detach()).sum())(gate.detach())
    torch.testing.assert_close(slope, torch.autograd.grad(ops.geglu(gate, up).sum(), gate)[0])


def test_what_a_forward_saves() -> None:
    kept: list[torch.Tensor] = []
    gate, up, (cos, sin) = tensor(3, 4), tensor(3, 4), angles(3, 2)
    with saved_tensors_hooks(lambda one: (kept.append(one), one)[1], lambda one: one):
        ops.swiglu(gate, up)
        assert len(kept) == 2, "autograd's own saves the sigmoid too"
        kept.clear()
        ops.rotary(tensor(100, 3, 4), cos, sin)
    assert sum(one.numel() for one in kept) == cos.numel() + sin.numel(), "the angles alone"


def test_first_and_second_order_launch_different_kernels() -> None:
    gate, up = tensor(3), tensor(3)
    before = torch.rustdev.op_calls()["swiglu_backward"]
    torch.autograd.grad(ops.swiglu(gate, up).sum(), (gate, up))
    assert torch.rustdev.op_calls()["swiglu_backward"] == before + 1
    torch.autograd.grad(ops.swiglu(gate, up).sum(), (gate, up), create_graph=True)
    assert torch.rustdev.op_calls()["swiglu_backward"] == before + 1


def test_the_forward_alone_refuses_to_differentiate() -> None:
    residual, x, bias = tensor(2, 3), tensor(2, 3), tensor(3)
    result = ops.residual_add(residual, x, bias)
    torch.testing.assert_close(result.detach().cpu(), (residual + x + bias).detach().cpu())
    assert result.requires_grad
    for check in (gradcheck, gradgradcheck):
        with pytest.raises(RuntimeError, match=r"derivative for rustdev::residual_add is not implemented"):
            check(ops.residual_add, (residual, x, bias))
    with torch.no_grad():
        assert not ops.residual_add(residual, x, bias).requires_grad


def test_the_forward_alone_in_place() -> None:
    residual, x, bias = tensor(2, 3, grad=False), tensor(2, 3), tensor(3)
    square = residual.clone().requires_grad_().square()
    saved_by_square = square * square
    with torch.no_grad():
        ops.residual_add_(square, x, bias)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved_by_square.sum().backward()
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        ops.residual_add_(bias, x[0], bias)
    with pytest.raises(RuntimeError, match=r"derivative for rustdev::residual_add_ is not implemented"):
        ops.residual_add_(residual, x, bias).sum().backward()


def test_angles_have_no_gradient() -> None:
    x, (cos, sin) = tensor(3, 4), angles(3, 2)
    with pytest.raises(NotImplementedError, match="no gradient for its angles"):
        ops.rotary(x, cos.requires_grad_(), sin)
    with torch.no_grad():
        ops.rotary(x, cos, sin)


def test_threads_share_a_leaf() -> None:
    weight, inputs = tensor(8), [tensor(8, grad=False) for _ in range(4)]
    repeats = 20

    def work(x: torch.Tensor, device: int) -> None:
        torch.rustdev.set_device(device)
        for _ in range(repeats):
            ops.swiglu(weight, x).sum().backward()

    with ThreadPoolExecutor(len(inputs)) as pool:
        list(pool.map(work, inputs, (0, 1, 0, 1)))
    (reference,) = host(weight)
    (functional.silu(reference) * sum(x.cpu() for x in inputs)).sum().backward()
    torch.testing.assert_close(weight.grad.cpu(), reference.grad * repeats)


def test_saved_tensors_are_freed_and_checked() -> None:
    gate, up = tensor(3), tensor(3)
    y = ops.swiglu(gate, up)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()
    z = ops.swiglu(gate, up)
    with torch.no_grad():
        up.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def func_results(device: str) -> dict[str, Any]:
    """Return what the transforms of torch.func give for the model on a device."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.SiLU(), nn.Linear(6, 3)).double().to(device)
    x, target = torch.randn(5, 4, dtype=torch.float64).to(device), torch.tensor([0, 1, 2, 0, 1]).to(device)
    parameters = {name: value.detach() for name, value in model.named_parameters()}

    def loss(parameters: dict[str, torch.Tensor], x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        logits = torch.func.functional_call(model, parameters, (x.unsqueeze(0),))
        return functional.cross_entropy(logits, target.unsqueeze(0))

    def logits(x: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, parameters, (x,))

    return {
        "per-sample gradients": torch.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, x, target),
        "vmap": torch.vmap(logits)(x),
        "jvp": torch.func.jvp(logits, (x,), (torch.ones_like(x),)),
        "vjp": torch.func.vjp(logits, x)[1](torch.ones(5, 3, dtype=torch.float64, device=device)),
        "jacobian": (torch.func.jacrev(logits)(x[0]), torch.func.jacfwd(logits)(x[0])),
        "hessian": torch.func.hessian(lambda x: logits(x).square().sum())(x[0]),
    }


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch.func compiles its decompositions with it
def test_func_transforms_of_a_model() -> None:
    ours, theirs = func_results("rustdev"), func_results("cpu")
    moved = torch.utils._pytree.tree_map(lambda one: one.cpu(), ours)
    torch.testing.assert_close(moved, theirs)
    assert all(one.device.type == "rustdev" for one in torch.utils._pytree.tree_leaves(ours))


def test_func_refuses_a_function_in_a_kernel() -> None:
    x = tensor(3, grad=False)
    with pytest.raises(RuntimeError, match=r"an autograd\.Function with functorch transforms"):
        torch.func.grad(lambda x: ops.swiglu(x, x).sum())(x)
