"""Compare compiled models with uncompiled ones, and with compiled ones on PyTorch's CPU device; write a table.

    python benches/models/compare_compiled.py [--only TEXT] [--threads N] [--mode MODE] [--output FOLDER]

The models are those of `make bench-models`, in float32, with its steps, blocks and check of the losses. The model is compiled, the
loss and the optimizer are not. All variants alternate in one process with the same number of threads; a figure is the minimum of
the blocks. `over eager` is the uncompiled model's time over the compiled one's, `over CPU` the CPU device's compiled time over it.
"""

import argparse
import sys
from pathlib import Path
from statistics import geometric_mean
from typing import NamedTuple

import rustdev
import torch
from measuring import BLOCKS, SECONDS, Contender, block, check
from models_report import write_table
from networks import TASKS

KINDS = ("train", "infer")


class Row(NamedTuple):
    """One model: milliseconds of a step, or of a pass without gradients."""

    threads: int
    mode: str
    model: str
    kind: str
    eager: float
    compiled: float
    cpu_compiled: float

    @property
    def over_eager(self) -> float:
        """Time of the uncompiled model over that of the compiled model."""
        return self.eager / self.compiled

    @property
    def over_cpu(self) -> float:
        """Time of the compiled model on the CPU device over that on the device."""
        return self.cpu_compiled / self.compiled


def measure(name: str, mode: str) -> list[Row]:
    """Measure a model in training and inference."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    task = TASKS[name]()
    host, eager, mine = (Contender(task, device, torch.float32) for device in ("cpu", "rustdev", "rustdev"))
    for contender in (host, mine):
        contender.model.compile(mode=mode)
    check(host, mine)
    rows = []
    for kind in KINDS:
        calls = [getattr(contender, kind) for contender in (eager, mine, host)]
        for call in calls:
            block(call, 3)  # compiles, and captures
        count = max(1, int(SECONDS * 1e3 / block(calls[0], 2)))
        times = [[block(call, count) for call in calls] for _ in range(BLOCKS)]
        rows.append(Row(torch.get_num_threads(), mode, name, kind, *map(min, zip(*times, strict=True))))
    return rows


def cells(row: Row) -> list[object]:
    """Return a row of the table."""
    return [*row[:4], *(f"{time:.4f}" for time in row[4:]), f"{row.over_eager:.3f}", f"{row.over_cpu:.3f}"]


def main(arguments: list[str]) -> None:
    """Measure, print the results as they come, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose name has this text")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="how many threads both devices have")
    parser.add_argument("--mode", default="default", help="of torch.compile")
    parser.add_argument("--output", type=Path, help="the folder that the table goes to; without, none is written")
    options = parser.parse_args(arguments)
    names = [name for name in TASKS if options.only in name]
    if not names:
        parser.error(f"no model has {options.only!r} in its name")
    torch.set_num_threads(options.threads)
    rustdev.set_num_threads(options.threads)
    rows: list[Row] = []
    for name in names:
        for row in measure(name, options.mode):
            rows.append(row)
            times = f"{row.eager:10.3f}{row.compiled:10.3f}{row.cpu_compiled:10.3f} ms"
            print(
                f"{row.model:40}{row.kind:6}{times}   over eager {row.over_eager:5.2f}   over CPU {row.over_cpu:5.2f}", flush=True
            )
    for kind in KINDS:
        mine = [row for row in rows if row.kind == kind]
        over_eager, over_cpu = geometric_mean(row.over_eager for row in mine), geometric_mean(row.over_cpu for row in mine)
        print(f"{kind}: geometric means over eager {over_eager:.2f}, over CPU {over_cpu:.2f}")
    if options.output:
        columns = [*Row._fields, "over_eager", "over_cpu"]
        print(write_table(options.output, "compiled", options.threads, columns, map(cells, rows)))


if __name__ == "__main__":
    main(sys.argv[1:])
