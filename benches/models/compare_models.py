"""Compare whole models with PyTorch's CPU device: training steps, inference, memory, operators; write tables and a page.

    python benches/models/compare_models.py [--only TEXT] [--threads N ...] [--quick] [--output FOLDER] [--page FILE.md]

Both devices start from the same weights and data and alternate in one process with the same number of threads; a figure is the
minimum of the blocks. The losses of the first steps are compared. The optimizer is AdamW with PyTorch's defaults; bfloat16 means
autocast. Factors are the CPU's time over the device's. The fallback is forbidden. The kind `graph` is a training step as the replay
of a graph, compared with the CPU device's ordinary step. Memory is the peak of tensors and scratch memory.
"""

import argparse
import contextlib
import copy
import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path

import rustdev
import torch
from models_report import KINDS, Row, mean, memory, page, plot, record
from networks import TASKS, Task
from torch.profiler import ProfilerActivity, profile

#: Number of blocks per device and approximate seconds of a block; the same for `--quick`.
BLOCKS, SECONDS = 7, 0.2
QUICK_BLOCKS, QUICK_SECONDS = 2, 0.02
#: Pause in seconds before each block, in which the other device's threads stop spinning.
PAUSE = 1e-2
#: Number of steps whose losses are compared, and of steps that are profiled.
STEPS = 3
#: Maximum number of listed operators, and minimum share of the time of a listed operator.
OPERATORS, LEAST = 4, 0.01


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

    def train(self) -> torch.Tensor:
        """Run a training step and return the loss."""
        with self.cast():
            result = self.model(*self.given)
        loss = self.loss(result.float(), self.wanted)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def captured(self) -> Callable[[], None]:
        """Capture a training step and return its replay."""
        with rustdev.stream(rustdev.Stream()):
            for _ in range(STEPS):
                self.train()
        rustdev.synchronize()
        graph = rustdev.Graph()
        with rustdev.graph(graph):
            self.train()
        return graph.replay

    def infer(self) -> torch.Tensor:
        """Run the model without gradients and return its output."""
        with torch.no_grad(), self.cast():
            return torch.as_tensor(self.model(*self.given))


def block(call: Callable[[], object], count: int) -> float:
    """Return the mean milliseconds of ``count`` calls."""
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
        AssertionError: If the losses differ.
    """
    rtol = 1e-4 if host.dtype is torch.float32 else 3e-2
    for _ in range(STEPS):
        torch.testing.assert_close(mine.train().cpu(), host.train(), rtol=rtol, atol=rtol)


def peak(call: Callable[[], object]) -> float:
    """Return the peak device memory during a call, in MiB."""
    rustdev.synchronize()
    rustdev.reset_peak_memory_stats()
    call()
    rustdev.synchronize()
    return rustdev.max_memory_allocated() / 2**20


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


def operators(call: Callable[[], object]) -> str:
    """Return the operators whose tasks take most of the device's time, with their shares of the total."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1], acc_events=True) as profiler:
        for _ in range(STEPS):
            call()
        rustdev.synchronize()
    rows = [row for row in profiler.key_averages() if row.device_type.name != "CPU" and not row.is_user_annotation]
    spent = {row.key: row.self_device_time_total for row in rows}
    shares = {name: spent[name] / sum(spent.values()) for name in sorted(spent, key=lambda name: -spent[name])[:OPERATORS]}
    return ", ".join(f"{name} {share:.0%}" for name, share in shares.items() if share > LEAST)


def measure(name: str, dtype: torch.dtype, *, quick: bool) -> list[Row]:
    """Measure a model in training and inference."""
    torch.manual_seed(0)
    task = TASKS[name]()
    host_peaks = {kind: host_peak(task, dtype, kind) for kind in ("train", "infer")}
    before = rustdev.memory_allocated() / 2**20
    host, mine = Contender(task, "cpu", dtype), Contender(task, "rustdev", dtype)
    peaks = {"infer": peak(mine.infer) - before}
    check(host, mine)
    peaks["train"] = peak(mine.train) - before
    # Kept alive: it holds the tensors that the graph reads.
    graphed = Contender(task, "rustdev", dtype, capturable=True)
    kinds: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "train": (host.train, mine.train),
        "graph": (host.train, graphed.captured()),
        "infer": (host.infer, mine.infer),
    }
    rows = []
    for kind, calls in kinds.items():
        count = max(1, int((QUICK_SECONDS if quick else SECONDS) * 1e3 / block(calls[0], 1 if quick else 2)))
        times = [[block(call, count) for call in calls] for _ in range(QUICK_BLOCKS if quick else BLOCKS)]
        cpu, device = map(min, zip(*times, strict=True))
        names = "" if kind == "graph" else operators(calls[1])
        rows.append(
            Row(
                threads=torch.get_num_threads(),
                model=name,
                dtype=str(dtype).removeprefix("torch."),
                kind=kind,
                cpu=cpu,
                device=device,
                host_peak=host_peaks.get(kind),
                peak=peaks.get(kind),
                operators=names,
            )
        )
    return rows


def show(row: Row) -> None:
    """Print a row."""
    times = f"{row.cpu:10.3f} ms{row.device:10.3f} ms{row.factor:7.2f}{memory(row.host_peak):>9}{memory(row.peak):>9} MiB"
    print(f"{row.threads} {row.model:40}{row.dtype:9}{row.kind:6}{times}  {row.operators}", flush=True)


def main(arguments: list[str]) -> None:
    """Measure, print the results as they come, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose name has this text")
    parser.add_argument("--threads", type=int, nargs="+", help="how many threads both devices have, one after the other")
    parser.add_argument("--quick", action="store_true", help="a short run, whose figures mean little")
    parser.add_argument("--output", type=Path, help="the folder that the tables go to; without, none is written")
    parser.add_argument("--page", type=Path, metavar="FILE.md", help="the page; its plot goes beside it")
    options = parser.parse_args(arguments)
    names = [name for name in TASKS if options.only in name]
    if not names:
        parser.error(f"no model has {options.only!r} in its name")
    rustdev.set_fallback_mode("error")
    rows: list[Row] = []
    for threads in options.threads or [torch.get_num_threads()]:
        torch.set_num_threads(threads)
        rustdev.set_num_threads(threads)
        for dtype in (torch.float32, torch.bfloat16):
            for name in names:
                for row in measure(name, dtype, quick=options.quick):
                    rows.append(row)
                    show(row)
        for kind in KINDS:
            mine = [row for row in rows if (row.threads, row.kind, row.dtype) == (threads, kind, "float32")]
            print(f"{threads} threads, {kind}, float32: geometric mean {mean(mine):.2f}")
    if options.output:
        print(*record(options.output, rows), sep="\n")
    if options.page:
        picture = options.page.with_suffix(".png")
        plot(rows, picture)
        options.page.write_text(page(rows, picture.name, quick=options.quick))
        print(options.page)


if __name__ == "__main__":
    main(sys.argv[1:])
