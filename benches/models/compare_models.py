"""Compare whole models with PyTorch's CPU device: training steps, inference, memory, operators; write tables and a page.

    python benches/models/compare_models.py [--only TEXT] [--threads N ...] [--quick] [--output FOLDER] [--page FILE.md]

Both devices start from the same weights and data and alternate in one process with the same number of threads; a figure is the
minimum of the blocks. The losses of the first steps are compared. The optimizer is AdamW with PyTorch's defaults; bfloat16 means
autocast. Factors are the CPU's time over the device's. The fallback is forbidden. The kind `graph` is a training step as the replay
of a graph, compared with the CPU device's ordinary step. Memory is the peak of tensors and scratch memory.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import rustdev
import torch
from measuring import STEPS, Contender, alternate, check, host_peak, peak
from models_report import KINDS, Row, mean, memory, page, plot, record
from networks import TASKS
from torch.profiler import ProfilerActivity, profile

#: Maximum number of listed operators, and minimum share of the time of a listed operator.
OPERATORS, LEAST = 4, 0.01


def captured(contender: Contender) -> Callable[[], None]:
    """Capture a training step and return its replay."""
    with rustdev.stream(rustdev.Stream()):
        for _ in range(STEPS):
            contender.train()
    rustdev.synchronize()
    graph = rustdev.Graph()
    with rustdev.graph(graph):
        contender.train()
    return graph.replay


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
        "graph": (host.train, captured(graphed)),
        "infer": (host.infer, mine.infer),
    }
    rows = []
    for kind, calls in kinds.items():
        cpu, device = alternate(calls, quick=quick)
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
