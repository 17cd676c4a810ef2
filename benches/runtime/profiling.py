"""Overhead of profiling: steps of a small GPT with and without a profiler, in alternating blocks in one process.

    python benches/runtime/profiling.py [--rounds N]

Prints the processor and, for each way to profile, the median over the rounds of the ratio of its block's time to that of the
unprofiled blocks before and after it. Starting and ending a trace is not counted.
"""

import argparse
import contextlib
import statistics
import sys
import time
from pathlib import Path

import rustdev
import torch
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from collections.abc import Callable
from contextlib import AbstractContextManager

import profile_transformer as example

STEPS = 4

WAYS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "none": contextlib.nullcontext,
    "torch.rustdev.profiler": rustdev.profiler.profile,
    "torch.profiler, device": lambda: profile(activities=[ProfilerActivity.PrivateUse1]),
    "torch.profiler, CPU": lambda: profile(activities=[ProfilerActivity.CPU]),
    "torch.profiler, CPU and device": lambda: profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]),
}


def block(step: Callable[[], None], way: Callable[[], AbstractContextManager[object]]) -> float:
    """Return the seconds of some steps under a profiler."""
    with way():
        start = time.perf_counter()
        for _ in range(STEPS):
            step()
        rustdev.synchronize()
        return time.perf_counter() - start


def processor() -> str:
    """Return the name of the processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def main() -> None:
    """Read the command line, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds

    torch.manual_seed(0)
    model = example.Transformer().to("rustdev")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    batches = example.Batches()

    def step() -> None:
        example.step(model, optimizer, batches)

    for way in WAYS.values():
        block(step, way)
    ratios: dict[str, list[float]] = {name: [] for name in WAYS}
    seconds = []
    for _ in range(rounds):
        before = block(step, WAYS["none"])
        for name, way in WAYS.items():
            measured = block(step, way)
            after = block(step, WAYS["none"])
            ratios[name].append(2 * measured / (before + after))
            before = after
        seconds.append(before)
    print(f"{processor()}, {rustdev.get_num_threads()} threads; a step takes {1e3 * statistics.median(seconds) / STEPS:.1f} ms")
    for name, found in ratios.items():
        low, middle, high = statistics.quantiles(found, n=4)
        print(f"{name:32} {middle:.3f} (quartiles {low:.3f} and {high:.3f})")


if __name__ == "__main__":
    main()
