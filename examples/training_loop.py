"""Training loop shared by the examples of single networks. A family is a network with its data, loss and optimizer.

The programs are resnet.py, mobilenet.py, vision_transformer.py, unet.py, diffusion.py, lstm.py, graph_network.py and
recommender.py. Nothing in them is specific to rustdev: they accept the names of other devices.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

#: Number of steps between updates of the loss in the progress bar, which wait for the device.
SHOWN = 10


class Family(NamedTuple):
    """A network with its data, loss and optimizer.

    Args:
        network: Makes the network, with initial weights from torch's default generator.
        batch: Returns a random batch on the CPU: the arguments of the network, followed by the target.
        loss: Function of the network's output and the target that returns a scalar.
        optimizer: Makes the optimizer of a network.
    """

    network: Callable[[], nn.Module]
    batch: Callable[[torch.Generator], tuple[Tensor, ...]]
    loss: Callable[[Tensor, Tensor], Tensor]
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]


def adamw(network: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer of most families."""
    return torch.optim.AdamW(network.parameters(), lr=1e-3)


def autocast(device: str, enabled: bool) -> AbstractContextManager[object]:
    """Return a context with autocast to bfloat16, if it is enabled."""
    return torch.autocast(torch.device(device).type, torch.bfloat16) if enabled else contextlib.nullcontext()


def progress_bar(device: str, steps: int) -> Any:
    """Return the step numbers with a progress bar of tqdm."""
    from tqdm import tqdm

    return tqdm(range(steps), desc=device, unit="step")


def train(family: Family, device: str, steps: int, amp: bool = False, progress: bool = True) -> tuple[nn.Module, list[float]]:
    """Train a new network and return it with the loss of each step.

    Args:
        family: Family to train.
        device: Name of the device.
        steps: Number of steps.
        amp: Whether to use autocast to bfloat16.
        progress: Whether to show a progress bar.
    """
    generator = torch.Generator().manual_seed(1)
    network = family.network().to(device)
    optimizer = family.optimizer(network)
    losses: list[Tensor] = []
    bar: Any = progress_bar(device, steps) if progress else range(steps)
    for step in bar:
        *given, wanted = (tensor.to(device) for tensor in family.batch(generator))
        optimizer.zero_grad()
        with autocast(device, amp):
            loss = family.loss(network(*given), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if progress and step % SHOWN == SHOWN - 1:
            bar.set_postfix(loss=f"{losses[-1].item():.4f}")
    return network, torch.stack(losses).tolist() if losses else []


def main(family: Family, description: str, steps: int) -> nn.Module:
    """Read the command line, train, report, and return the network.

    Args:
        family: Family to train.
        description: Text of ``--help``.
        steps: Default of ``--steps``.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="rustdev", help="rustdev, cpu, or another one that torch knows")
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--amp", action="store_true", help="bfloat16 autocast")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    arguments = parser.parse_args()

    torch.manual_seed(7)
    started = time.perf_counter()
    network, losses = train(family, arguments.device, arguments.steps, arguments.amp, not arguments.quiet)
    seconds = time.perf_counter() - started
    parameters = sum(parameter.numel() for parameter in network.parameters())
    print(f"{parameters:,} parameters on {arguments.device}, {seconds / max(arguments.steps, 1) * 1e3:.1f} ms a step")
    part = max(len(losses) // 10, 1)
    print(f"loss {sum(losses[:part]) / part:.4f} at first, {sum(losses[-part:]) / part:.4f} at last")
    return network
