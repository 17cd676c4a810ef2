"""Results of the benchmark of models: tables in benches/record/, and a page with a plot."""

import csv
import datetime as dt
import re
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import rustdev
import torch

KINDS = {"train": "tab:blue", "graph": "tab:green", "infer": "tab:orange"}


class Row(NamedTuple):
    """Result of a model: times in milliseconds, peak memory of both devices in MiB, and the operators that take most of the time.

    A graph has neither memory nor operators: its memory is that of its pool, and its replay is one task.
    """

    threads: int
    model: str
    dtype: str
    kind: str
    cpu: float
    device: float
    host_peak: float | None
    peak: float | None
    operators: str

    @property
    def factor(self) -> float:
        """Time on the CPU over time on the device."""
        return self.cpu / self.device


def mean(rows: list[Row]) -> float:
    """Return the geometric mean of the factors."""
    return statistics.geometric_mean(row.factor for row in rows)


def memory(peak: float | None) -> str:
    """Return MiB with one decimal; an empty string for None."""
    return "" if peak is None else f"{peak:.1f}"


def values(rows: Iterable[object], column: str) -> list[str]:
    """Return the distinct values of a column, in order of appearance."""
    return list(dict.fromkeys(str(getattr(row, column)) for row in rows))


def means(rows: list[Row]) -> Iterator[str]:
    """Yield a table of the geometric means."""
    yield f"| threads | dtype | {' | '.join(KINDS)} |"
    yield f"|---:|---|{'---:|' * len(KINDS)}"
    for threads in values(rows, "threads"):
        for dtype in values(rows, "dtype"):
            mine = [row for row in rows if (str(row.threads), row.dtype) == (threads, dtype)]
            kinds = [[row for row in mine if row.kind == kind] for kind in KINDS]
            yield f"| {threads} | {dtype} | {' | '.join(f'{mean(some):.2f}' if some else '' for some in kinds)} |"


def times(rows: list[Row]) -> Iterator[str]:
    """Yield a table with a line for each model, from rows with one number of threads and one dtype."""
    columns = (
        "model | train: CPU | device | factor | graph: device | factor | infer: CPU | device | factor"
        " | train, MiB: CPU | device | infer, MiB: CPU | device"
    )
    yield f"| {columns} |"
    yield f"|---|{'---:|' * 12}"
    for model in values(rows, "model"):
        train, graph, infer = ({row.kind: row for row in rows if row.model == model}[kind] for kind in KINDS)
        measured = [
            *(f"{train.cpu:.3f}", f"{train.device:.3f}", f"**{train.factor:.2f}**"),
            *(f"{graph.device:.3f}", f"**{graph.factor:.2f}**"),
            *(f"{infer.cpu:.3f}", f"{infer.device:.3f}", f"**{infer.factor:.2f}**"),
            *(memory(peak) for row in (train, infer) for peak in (row.host_peak, row.peak)),
        ]
        yield f"| {model} | {' | '.join(measured)} |"


def shares(rows: list[Row]) -> Iterator[str]:
    """Yield a table of the operators of each model."""
    yield "| model | dtype | | operators |"
    yield "|---|---|---|---|"
    for row in rows:
        if row.operators:
            yield f"| {row.model} | {row.dtype} | {row.kind} | {row.operators} |"


def page(rows: list[Row], picture: str, *, quick: bool) -> str:
    """Return the text of docs/models.md."""
    most = max(row.threads for row in rows)
    machine = f"{rustdev.get_device_name()} with {torch.backends.cpu.get_cpu_capability()}"
    threads = " and ".join(values(rows, "threads"))
    info = f"{machine}, {threads} threads, torch {torch.__version__}, rustdev {rustdev.__version__}, {dt.date.today()}"
    parts = [
        "# Models",
        "",
        "Whole models beside PyTorch's CPU device, both in one process with the same number of threads, in alternating blocks,",
        "of which the least counts, with the losses of the first steps held against each other: `make bench-models` writes this",
        "page and the tables of benches/record/. A factor is the CPU's time over the device's; it holds for the processor that is",
        "named here. Times are milliseconds: of a step of AdamW (train), of the same as a graph that is replayed, beside the CPU's",
        "ordinary step (graph), of a forward pass without gradients (infer). bfloat16 is autocast. The fallback is forbidden.",
        "",
        "The networks are those of examples/ (`resnet.py` and so on) or of benches/models/networks.py.",
        "[What limits](../benches/models/limits.md) tells what was found where an aim is missed.",
        "[Real models](real-models.md) has models of transformers and torchvision.",
        "",
        f"{info}." + (" A short run (`--quick`): not to be relied on." if quick else ""),
        "",
        "Geometric means of the factors:",
        "",
        *means(rows),
        "",
        f"![factors by model]({picture})",
        "",
    ]
    for count in values(rows, "threads"):
        for dtype in values(rows, "dtype"):
            mine = [row for row in rows if (str(row.threads), row.dtype) == (count, dtype)]
            if mine:
                parts += [f"## {dtype}, {count} thread{'s' if count != '1' else ''}", "", *times(mine), ""]
    parts += [
        "Memory is the greatest in a step, with weights, gradients and the optimizer's state, and in a forward pass with weights",
        "alone: what `torch.rustdev.max_memory_allocated()` tells, and what the profiler tells of PyTorch's CPU allocator, which",
        "the scratch memory of oneDNN and MKL does not come from.",
        "",
        f"## Operators, {most} thread{'s' if most != 1 else ''}",
        "",
        "Those whose tasks take most of the device's time in a step or a pass, by `torch.profiler`, with their shares of it.",
        "",
        *shares([row for row in rows if row.threads == most]),
    ]
    return "\n".join(parts) + "\n"


def plot(rows: list[Row], file: Path) -> None:
    """Plot the factors of each model, with a panel for each dtype and hollow markers for fewer threads."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FormatStrFormatter, NullFormatter

    models, dtypes = values(rows, "model"), values(rows, "dtype")
    most = max(row.threads for row in rows)
    is_wide = max(row.factor for row in rows) > 5 * min(row.factor for row in rows)
    figure, parts = plt.subplots(
        1, len(dtypes), figsize=(12, 1.4 + 0.34 * len(models)), layout="constrained", sharey=True, squeeze=False
    )
    for axes, dtype in zip(parts[0], dtypes, strict=True):
        for step, (kind, colour) in enumerate(KINDS.items()):
            for threads in sorted({row.threads for row in rows}):
                mine = [row for row in rows if (row.dtype, row.kind, row.threads) == (dtype, kind, threads)]
                axes.scatter(
                    [row.factor for row in mine],
                    [models.index(row.model) + 0.2 * (step - 1) for row in mine],
                    s=28, edgecolors=colour, facecolors=colour if threads == most else "none",
                    label=f"{kind}, {threads} thread{'s' if threads != 1 else ''}",
                )  # fmt: skip
        axes.axvline(1, color="gray", linewidth=0.8)
        axes.set(xscale="log", title=dtype, xlabel="CPU's time over the device's")
        axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        axes.xaxis.set_minor_formatter(NullFormatter() if is_wide else FormatStrFormatter("%g"))
        axes.set_yticks(range(len(models)), models)
        axes.grid(axis="x", alpha=0.25)
    parts[0][0].invert_yaxis()
    figure.legend(*parts[0][0].get_legend_handles_labels(), frameon=False, ncols=2 * len(KINDS), loc="outside lower center")
    figure.savefig(file, dpi=110, metadata={"Software": ""})
    plt.close(figure)


def write_table(folder: Path, kind: str, threads: int, columns: list[str], rows: Iterable[Iterable[object]]) -> Path:
    """Write a table to a file named after its kind, the processor and the number of threads, and return its path."""
    processor = re.sub(r"[^a-z0-9]+", "-", rustdev.get_device_name().lower()).strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{kind}-{processor}-{threads}-threads.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def record(folder: Path, rows: list[Row]) -> list[Path]:
    """Write the rows to a table for each number of threads."""
    columns = ["model", "dtype", "kind", "cpu ms", "device ms", "factor", "cpu MiB", "device MiB", "operators"]

    def cells(row: Row) -> list[str]:
        measured = f"{row.cpu:.3f}", f"{row.device:.3f}", f"{row.factor:.2f}"
        return [row.model, row.dtype, row.kind, *measured, memory(row.host_peak), memory(row.peak), row.operators]

    counts = sorted({row.threads for row in rows})
    return [write_table(folder, "models", count, columns, (cells(row) for row in rows if row.threads == count)) for count in counts]
