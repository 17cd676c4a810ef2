"""Trains a small network on a synthetic task by replaying a captured training step, and compares with eager steps.

    python examples/graph_training.py [--steps N]

The step reads its batch from two static tensors. One call replays the whole step, from the forward pass to the optimizer.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

import rustdev
import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH, INPUTS, CLASSES = 32, 16, 4


def batch(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return random points, and as classes the quadrants given by the signs of two partial sums."""
    points = torch.randn(BATCH, INPUTS, generator=generator)
    signs = points.unflatten(1, (2, INPUTS // 2)).sum(2) > 0
    return points, signs[:, 0].long() * 2 + signs[:, 1].long()


class Training:
    """A network with its optimizer, and the static tensors of a step.

    Args:
        seed: Seed of the initial weights.
    """

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        layers = [nn.Linear(INPUTS, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, CLASSES)]
        self.network = nn.Sequential(*layers).to("rustdev")
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=3e-3, capturable=True)
        self.points = torch.zeros(BATCH, INPUTS, device="rustdev")
        self.classes = torch.zeros(BATCH, dtype=torch.long, device="rustdev")
        self.loss = torch.zeros((), device="rustdev")

    def step(self) -> None:
        """Run a training step on the batch in the static tensors."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self.network(self.points), self.classes)
        loss.backward()
        self.optimizer.step()
        self.loss.copy_(loss.detach())

    def run(self, steps: int, step: Callable[[], None]) -> tuple[float, float]:
        """Run ``step`` on new batches. Return the last loss and the elapsed seconds."""
        generator = torch.Generator().manual_seed(1)
        batches = [[tensor.pin_memory() for tensor in batch(generator)] for _ in range(steps)]
        rustdev.synchronize()
        start = time.perf_counter()
        for points, classes in batches:
            self.points.copy_(points, non_blocking=True)
            self.classes.copy_(classes, non_blocking=True)
            step()
        return self.loss.item(), time.perf_counter() - start


def capture(training: Training) -> rustdev.Graph:
    """Capture a step after three warm-up steps."""
    stream = rustdev.Stream()
    stream.wait_stream(rustdev.current_stream())
    with rustdev.stream(stream):
        for _ in range(3):
            training.step()
    rustdev.current_stream().wait_stream(stream)
    graph = rustdev.Graph()
    with rustdev.graph(graph):
        training.step()
    return graph


def main() -> None:
    """Train twice from the same weights, eagerly and by replays, and compare the losses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    steps = parser.parse_args().steps
    eager, graphed = Training(0), Training(0)
    for _ in range(3):
        eager.step()  # as many steps as the warm-up of the capture
    graph = capture(graphed)
    expected, slow = eager.run(steps, eager.step)
    loss, fast = graphed.run(steps, graph.replay)
    print(f"loss after {steps} steps: {expected:.4f} without a graph, {loss:.4f} with it")
    print(f"microseconds a step: {slow / steps * 1e6:.0f} without a graph, {fast / steps * 1e6:.0f} with it")
    if loss != expected:
        raise SystemExit("the two differ")


if __name__ == "__main__":
    main()
