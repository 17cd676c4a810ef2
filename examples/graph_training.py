"""Trains a small network on a made-up task by replaying one step as a graph, beside the same steps without a graph.

    python examples/graph_training.py [--steps N]

The step reads its batch from two tensors that stay where they are. All of it, from the forward pass to the optimizer, is started
by one call.
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
    """Makes points and the quadrant that the signs of two sums put them into."""
    points = torch.randn(BATCH, INPUTS, generator=generator)
    signs = points.unflatten(1, (2, INPUTS // 2)).sum(2) > 0
    return points, signs[:, 0].long() * 2 + signs[:, 1].long()


class Training:
    """A network with its optimizer, and the tensors that every step reads and writes.

    Args:
        seed: of the first weights.
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
        """Takes one step on the batch that is there."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self.network(self.points), self.classes)
        loss.backward()
        self.optimizer.step()
        self.loss.copy_(loss.detach())

    def run(self, steps: int, step: Callable[[], None]) -> tuple[float, float]:
        """Takes steps on new batches; returns the last loss and the seconds they took."""
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
    """Captures a step after three that warm up."""
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
    """Trains twice from the same weights and compares the losses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    steps = parser.parse_args().steps
    eager, graphed = Training(0), Training(0)
    for _ in range(3):
        eager.step()  # as often as the other one warms up
    graph = capture(graphed)
    expected, slow = eager.run(steps, eager.step)
    loss, fast = graphed.run(steps, graph.replay)
    print(f"loss after {steps} steps: {expected:.4f} without a graph, {loss:.4f} with it")
    print(f"microseconds a step: {slow / steps * 1e6:.0f} without a graph, {fast / steps * 1e6:.0f} with it")
    if loss != expected:
        raise SystemExit("the two differ")


if __name__ == "__main__":
    main()
