"""Shared parts of the benchmarks of models: tasks, their copies on a device, blocks of calls, checks of results, peaks of memory.

rustdev is not imported here: processes that measure other contenders alone do without it.
"""

import contextlib
import copy
import itertools
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

#: Number of blocks per contender and approximate seconds of a block; the same for `--quick`.
BLOCKS, SECONDS = 7, 0.2
QUICK_BLOCKS, QUICK_SECONDS = 2, 0.02
#: Seconds of a call from which all calls of a block are timed, and how many blocks there are then. Seconds from which there is one.
LONG, LONG_BLOCKS, LONGEST = 1.0, 3, 10.0
#: Pause in seconds before each block, in which the other device's threads stop spinning.
PAUSE = 1e-2
#: Number of steps whose losses are compared, and of steps that are profiled.
STEPS = 3


def cross_entropy(result: Tensor, wanted: Tensor) -> Tensor:
    """Return the cross entropy, with classes along the last dimension of the result."""
    return functional.cross_entropy(result.flatten(0, -2), wanted.flatten())


class Task(NamedTuple):
    """A model with its inputs, targets and loss."""

    model: nn.Module
    given: tuple[Tensor, ...]
    wanted: Tensor
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy


class Contender:
    """A copy of a task's model on a device, with an optimizer.

    Args:
        task: Task to copy.
        device: Device of the copy.
        dtype: Autocast dtype; float32 for no autocast.
        capturable: Whether the optimizer's step can be captured in a graph.
    """

    def __init__(self, task: Task, device: str, dtype: torch.dtype, *, capturable: bool = False) -> None:
        self.model = copy.deepcopy(task.model).to(device)
        self.given, self.wanted = [tensor.to(device) for tensor in task.given], task.wanted.to(device)
        self.loss = task.loss
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, capturable=capturable)
        self.device, self.dtype = device, dtype

    def cast(self) -> contextlib.AbstractContextManager[object]:
        """Return the autocast context of the model."""
        return contextlib.nullcontext() if self.dtype is torch.float32 else torch.autocast(self.device, dtype=self.dtype)

    def train(self) -> Tensor:
        """Run a training step and return the loss."""
        with self.cast():
            result = self.model(*self.given)
        loss = self.loss(result.float(), self.wanted)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def infer(self) -> Tensor:
        """Run the model without gradients and return its output."""
        with torch.no_grad(), self.cast():
            return torch.as_tensor(self.model(*self.given))


def synchronize() -> None:
    """Wait for the device, if the process has one."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()


def block(call: Callable[[], object], count: int, *, first: bool = True) -> float:
    """Return the mean milliseconds of ``count`` calls, in front of which is one that is not timed, if ``first``."""
    time.sleep(PAUSE)
    if first:
        call()
    synchronize()
    start = time.perf_counter()
    for _ in range(count):
        call()
    synchronize()
    return (time.perf_counter() - start) / count * 1e3


def alternate(calls: Sequence[Callable[[], object]], *, quick: bool) -> list[float]:
    """Return the least milliseconds of each of several calls, which are measured in alternating blocks of equal counts."""
    lone = [block(call, 1, first=False) for call in calls]
    is_long = lone[0] > LONG * 1e3
    spent = lone[0] if is_long else block(calls[0], 1 if quick else 2)
    count = max(1, int((QUICK_SECONDS if quick else SECONDS) * 1e3 / spent))
    blocks = 1 if spent > LONGEST * 1e3 else QUICK_BLOCKS if quick else LONG_BLOCKS if is_long else BLOCKS
    firsts = [one < LONG * 1e3 for one in lone]
    times = [[block(call, count, first=first) for call, first in zip(calls, firsts, strict=True)] for _ in range(blocks)]
    return [min(some) for some in zip(*times, strict=True)]


def check(host: Contender, mine: Contender) -> None:
    """Train both for some steps and compare the losses.

    Raises:
        AssertionError: If the losses differ.
    """
    rtol = 1e-4 if host.dtype is torch.float32 else 3e-2
    for _ in range(STEPS):
        torch.testing.assert_close(mine.train().cpu(), host.train(), rtol=rtol, atol=rtol)


def peak(call: Callable[[], object]) -> float:
    """Return the peak device memory during a call, in MiB."""
    synchronize()
    torch.accelerator.reset_peak_memory_stats()
    call()
    synchronize()
    return torch.accelerator.max_memory_allocated() / 2**20


def host_peak(task: Task, dtype: torch.dtype, kind: str) -> float:
    """Return the peak memory of tensors on the CPU device, including weights and data, in MiB.

    The CPU device has no statistics. The profiler reports each allocation, and each release as a negative size.
    """
    given = sum(tensor.nbytes for tensor in [*task.given, task.wanted])
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler:
        contender = Contender(task, "cpu", dtype)
        for _ in range(STEPS if kind == "train" else 1):
            getattr(contender, kind)()
    recorded = profiler.profiler.kineto_results.events() if profiler.profiler else []
    events = [event for event in recorded if event.name() == "[memory]"]
    sizes: list[int] = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return (given + max(itertools.accumulate(sizes))) / 2**20
