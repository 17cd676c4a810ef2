"""What the programs of single networks share: a family is a network with its data and its loss, and here is how one is trained.

It is no program itself; resnet.py, mobilenet.py, vision_transformer.py, unet.py, diffusion.py, lstm.py, graph_network.py and
recommender.py are. Nothing in them is written for rustdev: another device's name does as well.
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

#: Steps after which the progress bar shows a new loss: reading it waits for the device.
SHOWN = 10


class Family(NamedTuple):
    """A network, and what it learns from.

    Args:
        network: makes it, with first weights from torch's generator.
        batch: draws a batch on the CPU: the network's arguments, and last what its result is held against.
        loss: of the network's result and that last tensor: a scalar.
        optimizer: makes the optimizer for a network.
    """

    network: Callable[[], nn.Module]
    batch: Callable[[torch.Generator], tuple[Tensor, ...]]
    loss: Callable[[Tensor, Tensor], Tensor]
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]


def adamw(network: nn.Module) -> torch.optim.Optimizer:
    """The optimizer of most families."""
    return torch.optim.AdamW(network.parameters(), lr=1e-3)


def autocast(device: str, enabled: bool) -> AbstractContextManager[object]:
    """The context that rounds products to bfloat16, if it is enabled."""
    return torch.autocast(torch.device(device).type, torch.bfloat16) if enabled else contextlib.nullcontext()


def progress_bar(device: str, steps: int) -> Any:
    """The numbers of the steps, with tqdm's bar."""
    from tqdm import tqdm

    return tqdm(range(steps), desc=device, unit="step")


def train(family: Family, device: str, steps: int, amp: bool = False, progress: bool = True) -> tuple[nn.Module, list[float]]:
    """Trains a new network and returns it with the loss of each step.

    Args:
        family: what is trained, and from what.
        device: a device's name, as torch.device takes it.
        steps: how many batches are seen.
        amp: whether products round to bfloat16.
        progress: whether to show a bar.
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
    """Reads the command line, trains, reports, and returns the network.

    Args:
        family: what is trained, and from what.
        description: what ``--help`` prints.
        steps: how many there are without ``--steps``.
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
