"""examples/adamw_8bit.py: states of one byte for each element, with steps near those of AdamW."""

import pytest
import torch
from adamw_8bit import BLOCK, AdamW8Bit
from torch import nn


def trained(kind: type[torch.optim.Optimizer], device: str) -> tuple[list[float], torch.optim.Optimizer]:
    """Fit a network to another one; return the loss of each step, and the optimizer."""
    torch.manual_seed(0)
    network, wanted = (nn.Sequential(nn.Linear(20, 50), nn.Tanh(), nn.Linear(50, 3)) for _ in range(2))
    network, x = network.to(device), torch.randn(256, 20)
    target, x = wanted(x).detach().to(device), x.to(device)
    optimizer = kind(network.parameters(), lr=1e-2)  # type: ignore[call-arg]
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(network(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, optimizer


@pytest.mark.parametrize("device", ["cpu", "rustdev"])
def test_it_trains_as_adamw(device: str) -> None:
    losses, optimizer = trained(AdamW8Bit, device)
    wanted, _ = trained(torch.optim.AdamW, device)
    assert losses[0] == wanted[0]
    assert losses[-1] < 0.05 * losses[0]
    assert losses[-1] < 2 * wanted[-1] + 1e-3
    for parameter, state in optimizer.state.items():
        blocks = -(-parameter.numel() // BLOCK)
        assert (state["mean"].dtype, state["root"].dtype) == (torch.int8, torch.uint8)
        assert state["mean"].numel() == state["root"].numel() == blocks * BLOCK
        assert state["mean_scale"].numel() == state["root_scale"].numel() == blocks
