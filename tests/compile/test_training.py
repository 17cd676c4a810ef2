"""Compiled training: models, optimizers, autocast, custom operators of rustdev."""

from collections.abc import Callable

import pytest
import torch
from generated import sources
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """A transformer's block with attention, a gated MLP and residual sums."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
        self.gate, self.down = nn.Linear(16, 64), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (it.unflatten(-1, (2, 8)).transpose(1, 2) for it in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out(functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        gate, up = self.gate(functional.rms_norm(x, (16,))).chunk(2, -1)
        return x + self.down(functional.silu(gate) * up)


def losses(model: nn.Module, x: torch.Tensor, y: torch.Tensor, compiled: bool, steps: int = 4) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    run = torch.compile(model, fullgraph=True) if compiled else model
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = functional.cross_entropy(run(x).flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.slow
def test_a_transformer_trains_as_on_the_cpu() -> None:
    x, y = torch.randn(2, 6, 16), torch.randint(16, (2, 6))
    torch.manual_seed(1)
    expected = losses(Block(), x, y, compiled=False)
    torch.manual_seed(1)
    assert losses(Block().to("rustdev"), x.to("rustdev"), y.to("rustdev"), compiled=True) == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
def test_autocast() -> None:
    def step(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        with torch.autocast("rustdev", dtype=torch.bfloat16):
            y = x @ w
        assert y.dtype is torch.bfloat16
        return y.float().softmax(-1) + y

    x, w = torch.randn(5, 8, device="rustdev", requires_grad=True), torch.randn(8, 7, device="rustdev")
    expected, result = step(x, w), torch.compile(step, fullgraph=True)(x, w)
    assert result.dtype is expected.dtype
    torch.testing.assert_close(result, expected, rtol=2e-3, atol=2e-3)
    (gradient,) = torch.autograd.grad(result.sum(), x)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), x)[0], rtol=2e-2, atol=2e-2)


@pytest.mark.slow
@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.AdamW])
def test_compiled_optimizers(make: Callable[..., torch.optim.Optimizer]) -> None:
    def steps(device: str, compiled: bool) -> list[torch.Tensor]:
        torch.manual_seed(2)
        parameters = [nn.Parameter(torch.randn(4, 5).to(device)) for _ in range(3)]
        optimizer = make(parameters, lr=0.1)
        step = torch.compile(optimizer.step) if compiled else optimizer.step
        for _ in range(3):
            for parameter in parameters:
                parameter.grad = parameter.detach().sin()
            step()
        return [parameter.detach().cpu() for parameter in parameters]

    with sources() as made:
        actual = steps("rustdev", compiled=True)
    assert made
    torch.testing.assert_close(actual, steps("cpu", compiled=False))


def test_our_operators() -> None:
    ops = torch.ops.rustdev

    def fused(gate: torch.Tensor, up: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y = ops.swiglu(gate * 2, up)
        return (y + ops.rotary(x, x.sin()[..., :4].contiguous(), x.cos()[..., :4].contiguous())).relu()

    arguments = [torch.randn(3, 8, device="rustdev") for _ in range(3)]
    with sources() as made:
        result = torch.compile(fused, fullgraph=True)(*arguments)
    assert made
    torch.testing.assert_close(result, fused(*arguments))


@pytest.mark.slow
def test_gradients_of_our_operators() -> None:
    def fused(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return torch.ops.rustdev.swiglu(gate.tanh(), up) * 3

    arguments = [torch.randn(3, 8, device="rustdev", requires_grad=True) for _ in range(2)]
    expected = torch.autograd.grad(fused(*arguments).sum(), arguments)
    actual = torch.autograd.grad(torch.compile(fused, fullgraph=True)(*arguments).sum(), arguments)
    torch.testing.assert_close(actual, expected)
