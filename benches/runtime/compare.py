"""Overhead of the runtime, compared with PyTorch's CPU device: calls, chains, synchronization, large results, allocation, import.

    python benches/runtime/compare.py [--rounds N] [--csv FILE]

Both devices run in one process with the same number of threads, in alternating blocks, so that other load on the machine affects
both. Times are medians over the blocks; the ratio is the median over pairs of blocks. Every case first checks that both devices
compute the same values. A figure is valid only for the processor that is printed.
"""

import argparse
import csv
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import rustdev
import torch
from torch import Tensor

LARGE = 16 * 2**20


@dataclass
class Case:
    """A measured case.

    Attributes:
        name: Name in the table.
        make: Function of a device that returns the step to repeat. Results of the step are compared between the devices.
        repeats: Number of steps of a block.
        per: Number of operations of a step; times are per operation.
        aim: Target for the ratio of the device's time to the CPU's, if any.
    """

    name: str
    make: Callable[[str], Callable[[], Tensor | float | None]]
    repeats: int
    per: int = 1
    aim: float | None = None


@dataclass
class Row:
    """Result of a case: medians in seconds, and the ratio of the device's time to the CPU's."""

    name: str
    cpu: float
    rustdev: float
    ratio: float
    aim: float | None


def one_add(device: str) -> Callable[[], Tensor]:
    """An operator on one element: the call overhead."""
    a, b = torch.tensor([1.5], device=device), torch.tensor([2.25], device=device)
    return lambda: a + b


def chain(device: str) -> Callable[[], Tensor]:
    """Ten thousand dependent operators."""
    one = torch.tensor([1.0], device=device)

    def step() -> Tensor:
        x = one
        for _ in range(10_000):
            x = x + one
        return x

    return step


def add_item(device: str) -> Callable[[], float]:
    """An operator whose result is read at once."""
    a, b = torch.tensor([1.5], device=device), torch.tensor([2.25], device=device)
    return lambda: (a + b).item()


def large_add(device: str) -> Callable[[], Tensor]:
    """A large operator with a new result: memory bandwidth and allocation."""
    a = torch.arange(LARGE, dtype=torch.float32).to(device)
    b = torch.ones(LARGE).to(device)
    return lambda: a + b


def allocation(bytes_: int) -> Callable[[str], Callable[[], None]]:
    """Allocation and free of a block."""

    def make(device: str) -> Callable[[], None]:
        where = torch.device(device)

        def step() -> None:
            torch.empty(bytes_, dtype=torch.uint8, device=where)

        return step

    return make


CASES = [
    Case("a + b, 1 element", one_add, 5_000, aim=0.8),
    Case("chain of 10,000 adds, per add", chain, 1, per=10_000, aim=0.8),
    Case("(a + b).item(), 1 element", add_item, 5_000, aim=0.8),
    Case("a + b, 16M elements", large_add, 3, aim=1 / 3),
    Case("allocate and free 1 KiB", allocation(1 << 10), 10_000),
    Case("allocate and free 64 MiB", allocation(1 << 26), 200),
]


def block(step: Callable[[], Tensor | float | None], case: Case) -> float:
    """Run a block and return the seconds per operation, including the work on the device."""
    started = time.perf_counter()
    for _ in range(case.repeats):
        step()
    rustdev.synchronize()
    return (time.perf_counter() - started) / (case.repeats * case.per)


def measure(case: Case, rounds: int) -> Row:
    """Measure a case on both devices.

    Args:
        case: Case to measure.
        rounds: Number of blocks per device, after a warm-up block.

    Raises:
        AssertionError: If the devices compute different values.
    """
    steps = {device: case.make(device) for device in ("cpu", "rustdev")}
    on_cpu, on_device = (step() for step in steps.values())
    if isinstance(on_cpu, Tensor) and isinstance(on_device, Tensor):
        torch.testing.assert_close(on_device.cpu(), on_cpu, rtol=0, atol=0)
    else:
        assert on_cpu == on_device, f"{case.name}: {on_device} on the device, {on_cpu} on the CPU"
    del on_cpu, on_device
    pairs = [[block(step, case) for step in steps.values()] for _ in range(rounds + 1)][1:]
    cpu, rustdev = (statistics.median(times) for times in zip(*pairs, strict=True))
    # The blocks of a pair are adjacent in time, so changes of the processor's speed cancel in the ratio.
    ratio = statistics.median(mine / theirs for theirs, mine in pairs)
    return Row(case.name, cpu, rustdev, ratio, case.aim)


def measure_import(rounds: int) -> float:
    """Return the seconds that `import rustdev` takes after `import torch`: the median over new processes."""
    program = "import time, torch; start = time.perf_counter(); import rustdev; print(time.perf_counter() - start)"
    command = [sys.executable, "-c", program]
    environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    runs = [subprocess.run(command, env=environment, check=True, capture_output=True, text=True) for _ in range(rounds)]
    return statistics.median(float(run.stdout) for run in runs)


def human(seconds: float) -> str:
    """Return a time with three significant digits and a unit."""
    for scale, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def show(row: Row) -> None:
    """Print a row of the table."""
    aim = f"{row.aim:8.2f}" if row.aim else ""
    print(f"{row.name:38}{human(row.cpu):>10}{human(row.rustdev):>10}{row.ratio:>8.2f}{aim}", flush=True)


def main() -> None:
    """Read the command line, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21, help="blocks for each device")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()

    threads = rustdev.get_num_threads()
    torch.set_num_threads(threads)
    print(f"{rustdev.get_device_name()}, {threads} threads; torch {torch.__version__}, rustdev {rustdev.__version__}")
    print(f"{'':38}{'cpu':>10}{'rustdev':>10}{'ratio':>8}{'aim':>8}")
    rows = []
    for case in CASES:
        rows.append(measure(case, arguments.rounds))
        show(rows[-1])
    print(f"`import torch` takes {human(measure_import(min(arguments.rounds, 5)))} more with rustdev (at most 150 ms is wanted)")
    if arguments.csv:
        with arguments.csv.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["processor", "torch", "threads", "case", "cpu_seconds", "rustdev_seconds"])
            writer.writerows(
                [rustdev.get_device_name(), torch.__version__, threads, row.name, row.cpu, row.rustdev] for row in rows
            )


if __name__ == "__main__":
    main()
