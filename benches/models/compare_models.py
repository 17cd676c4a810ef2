"""Whole models beside PyTorch's CPU device: training steps, inference, memory; writes a table to benches/record/.

    python benches/models/compare_models.py [--only TEXT] [--output FOLDER]

Both devices start from the same weights and data in one process with the same number of threads, and take turns; a figure is the
least over the blocks. The losses of the first steps are held against each other. The optimizer is AdamW with PyTorch's defaults;
bfloat16 is autocast. Factors are the CPU's time over the device's. The fallback is forbidden: every operator is the device's.
The kind `graph` is a training step as a graph, replayed, beside the CPU device's ordinary step.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import csv
import math
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import rustdev
import torch
from networks import TASKS, Task
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

#: Blocks of each device, about how long one is, in seconds, and the pause before each, in which the other device's threads stop
#: looking for work.
BLOCKS = 7
SECONDS = 0.2
PAUSE = 1e-2
#: Steps after which the losses are compared.
STEPS = 3


class Row(NamedTuple):
    """One model, in milliseconds."""

    model: str
    dtype: str
    kind: str
    cpu: float
    device: float

    @property
    def factor(self) -> float:
        """The CPU's time over the device's."""
        return self.cpu / self.device


class Contender:
    """A copy of a task's model on a device, with an optimizer.

    Args:
        task: what is copied.
        device: where to.
        dtype: of autocast; float32 is none.
        capturable: whether a graph shall take the optimizer's step.
    """

    def __init__(self, task: Task, device: str, dtype: torch.dtype, *, capturable: bool = False) -> None:
        self.model = copy.deepcopy(task.model).to(device)
        self.given, self.classes = task.given.to(device), task.classes.to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, capturable=capturable)
        self.device, self.dtype = device, dtype

    def cast(self) -> contextlib.AbstractContextManager[object]:
        """Return the context in which the model runs."""
        return contextlib.nullcontext() if self.dtype is torch.float32 else torch.autocast(self.device, dtype=self.dtype)

    def train(self) -> torch.Tensor:
        """Take a step; return the loss."""
        with self.cast():
            result = self.model(self.given)
        loss = functional.cross_entropy(result.flatten(0, -2).float(), self.classes.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def captured(self) -> Callable[[], None]:
        """Return the replay of a step."""
        with rustdev.stream(rustdev.Stream()):
            for _ in range(STEPS):
                self.train()
        rustdev.synchronize()
        graph = rustdev.Graph()
        with rustdev.graph(graph):
            self.train()
        return graph.replay

    def infer(self) -> torch.Tensor:
        """Return the model's result."""
        with torch.no_grad(), self.cast():
            return torch.as_tensor(self.model(self.given))


def block(call: Callable[[], object], count: int) -> float:
    """Return the milliseconds of a call, over some of them."""
    time.sleep(PAUSE)
    call()
    rustdev.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        call()
    rustdev.synchronize()
    return (time.perf_counter() - start) / count * 1e3


def check(host: Contender, mine: Contender) -> None:
    """Train both for some steps and compare the losses.

    Raises:
        AssertionError: They differ.
    """
    rtol = 1e-4 if host.dtype is torch.float32 else 3e-2
    for _ in range(STEPS):
        torch.testing.assert_close(mine.train().cpu(), host.train(), rtol=rtol, atol=rtol)


def measure(name: str, dtype: torch.dtype) -> list[Row]:
    """Measure a model in training and inference."""
    torch.manual_seed(0)
    task = TASKS[name]()
    host, mine = Contender(task, "cpu", dtype), Contender(task, "rustdev", dtype)
    check(host, mine)
    rows = []
    # It holds what the graph reads.
    graphed = Contender(task, "rustdev", dtype, capturable=True)
    kinds: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "train": (host.train, mine.train),
        "graph": (host.train, graphed.captured()),
        "infer": (host.infer, mine.infer),
    }
    for kind, calls in kinds.items():
        count = max(1, int(SECONDS * 1e3 / block(calls[0], 2)))
        times = [[block(call, count) for call in calls] for _ in range(BLOCKS)]
        cpu, device = map(min, zip(*times, strict=True))
        rows.append(Row(name, str(dtype).removeprefix("torch."), kind, cpu, device))
    return rows


def write(folder: Path, rows: list[Row]) -> Path:
    """Write the rows to the processor's file."""
    processor = re.sub(r"[^a-z0-9]+", "-", rustdev.get_device_name().lower()).strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"models-{processor}-{torch.get_num_threads()}-threads.csv"
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["model", "dtype", "kind", "cpu ms", "device ms", "factor"])
        table.writerows([*row[:3], f"{row.cpu:.3f}", f"{row.device:.3f}", f"{row.factor:.2f}"] for row in rows)
    return path


def main(arguments: list[str]) -> None:
    """Measure, and print as it goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose name has this text")
    parser.add_argument("--output", type=Path, help="the folder that the table goes to; without, nothing is written")
    options = parser.parse_args(arguments)
    rustdev.set_num_threads(torch.get_num_threads())
    rustdev.set_fallback_mode("error")
    rows: list[Row] = []
    for dtype in (torch.float32, torch.bfloat16):
        for name in TASKS:
            if options.only in name:
                for row in measure(name, dtype):
                    rows.append(row)
                    print(
                        f"{row.model:42}{row.dtype:9}{row.kind:6}{row.cpu:10.3f} ms{row.device:10.3f} ms{row.factor:7.2f}",
                        flush=True,
                    )
    for kind in ("train", "graph", "infer"):
        factors = [row.factor for row in rows if row.kind == kind and row.dtype == "float32"]
        if factors:
            print(f"{kind}, float32: geometric mean {math.exp(sum(map(math.log, factors)) / len(factors)):.2f}")
    if options.output:
        print(write(options.output, rows))


if __name__ == "__main__":
    main(sys.argv[1:])
