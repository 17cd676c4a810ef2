"""Results of the benchmark of real models: tables in benches/record/, and a page."""

import datetime as dt
import statistics
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import rustdev
import torch
from models_report import memory, values, write_table
from real_models import ADDED, FALLBACKS, PROMPT

KINDS = ["infer", "train", "decode"]
#: Greatest difference of results: as a part of the greatest output, of the loss, of the greatest logit.
TOLERANCES = {
    "infer": {"float32": 1e-4, "bfloat16": 5e-2},
    "train": {"float32": 1e-4, "bfloat16": 3e-2},
    "decode": {"float32": 1e-4, "bfloat16": 5e-2},
}
#: Columns of the page for contenders that run alone.
COMPILERS = {
    "cpu_compiled": "CPU, compiled",
    "openvino": "OpenVINO",
    "device_compiled": "device, compiled",
    "device_frozen": "device, frozen",
}


class Row(NamedTuple):
    """Result of a model: times in milliseconds, and peak memory of both devices in MiB.

    Compilers have a time in float32 inference only. The time of a kind `decode` is that of one token.
    """

    threads: int
    model: str
    dtype: str
    kind: str
    cpu: float
    device: float
    cpu_compiled: float | None = None
    openvino: float | None = None
    device_compiled: float | None = None
    device_frozen: float | None = None
    host_peak: float | None = None
    peak: float | None = None
    failures: str = ""

    @property
    def factor(self) -> float:
        """Time on the CPU over time on the device."""
        return self.cpu / self.device

    @property
    def over_ours(self) -> float | None:
        """Least time of PyTorch's CPU device, compiled or not, and of OpenVINO over the device's least; None if none is compiled."""
        others = [time for time in (self.cpu_compiled, self.openvino) if time is not None]
        ours = [time for time in (self.device_compiled, self.device_frozen) if time is not None]
        return min(self.cpu, *others) / min(self.device, *ours) if others or ours else None


def milliseconds(time: float | None) -> str:
    """Return a time with three decimals; an empty string for None."""
    return "" if time is None else f"{time:.3f}"


def mean_and_least(factors: list[float]) -> str:
    """Return two cells: the geometric mean and the least of some factors."""
    return f"{statistics.geometric_mean(factors):.2f} | {min(factors):.2f}" if factors else " | "


def some_rows(rows: list[Row], threads: int, dtype: str, kind: str) -> list[Row]:
    """Return the rows with a number of threads, a dtype and a kind."""
    return [row for row in rows if (row.threads, row.dtype, row.kind) == (threads, dtype, kind)]


def groups(rows: list[Row]) -> Iterator[tuple[int, str]]:
    """Yield the numbers of threads and the dtypes of the rows."""
    yield from dict.fromkeys((row.threads, row.dtype) for row in rows)


def summary(rows: list[Row]) -> Iterator[str]:
    """Yield a table of the geometric means and the least factors."""
    yield f"| threads | dtype | {' | '.join(f'{kind}: mean | least' for kind in KINDS)} | others over ours: mean | least |"
    yield f"|---:|---|{'---:|' * 8}"
    for threads, dtype in groups(rows):
        cells = [mean_and_least([row.factor for row in some_rows(rows, threads, dtype, kind)]) for kind in KINDS]
        best = [row.over_ours for row in some_rows(rows, threads, dtype, "infer") if row.over_ours is not None]
        yield f"| {threads} | {dtype} | {' | '.join([*cells, mean_and_least(best)])} |"


def times(infer: list[Row], train: list[Row]) -> Iterator[str]:
    """Yield a table with a line for each model, in inference and in training."""
    columns = "model | infer: CPU | device | factor | train: CPU | device | factor | infer, MiB: CPU | device | train, MiB: CPU | device"
    yield f"| {columns} |"
    yield f"|---|{'---:|' * 10}"
    for model in values([*infer, *train], "model"):
        found = [next((row for row in some if row.model == model), None) for some in (infer, train)]
        cells = [model]
        for row in found:
            cells += [milliseconds(row.cpu), milliseconds(row.device), f"**{row.factor:.2f}**"] if row else [""] * 3
        for row in found:
            cells += [memory(row.host_peak), memory(row.peak)] if row else [""] * 2
        yield f"| {' | '.join(cells)} |"


def compilers(rows: list[Row]) -> Iterator[str]:
    """Yield a table of all contenders in float32 inference."""
    yield "| model | CPU | CPU, compiled | OpenVINO | device | device, compiled | device, frozen | others over ours |"
    yield f"|---|{'---:|' * 7}"
    for row in rows:
        spent = (row.cpu, row.cpu_compiled, row.openvino, row.device, row.device_compiled, row.device_frozen)
        yield f"| {row.model} | {' | '.join(map(milliseconds, spent))} | **{row.over_ours:.2f}** |"


def tokens(rows: list[Row]) -> Iterator[str]:
    """Yield a table of the milliseconds of a token."""
    yield "| model | CPU | device | factor | MiB: device |"
    yield f"|---|{'---:|' * 4}"
    for row in rows:
        cells = [row.model, milliseconds(row.cpu), milliseconds(row.device), f"**{row.factor:.2f}**", memory(row.peak)]
        yield f"| {' | '.join(cells)} |"


def introduction() -> list[str]:
    """Return the lines that say what is compared."""
    versions = {name: metadata.version(name) for name in ("transformers", "torchvision", "openvino")}
    parts = {kind: " and ".join(f"{part:g} in {dtype}" for dtype, part in TOLERANCES[kind].items()) for kind in KINDS}
    fallbacks = [f"- The fallback is allowed for {name}: {reason}" for name, reason in FALLBACKS.items()]
    return [
        "# Real models",
        "",
        "This page compares known models on rustdev with what else runs them on a processor: PyTorch's CPU device, `torch.compile` and",
        f"OpenVINO. The models are those of transformers {versions['transformers']} and torchvision {versions['torchvision']}. They have",
        "their usual sizes and random weights. `make bench-real` writes this page and the tables `real-*.csv` of benches/record/.",
        "[Models](models.md) has smaller ones.",
        "",
        "A factor is the CPU device's time over rustdev's. A factor above 1 means that rustdev is faster. The factors hold for the",
        "processor that is named here.",
        "",
        "| kind | what a time is |",
        "|---|---|",
        "| infer | milliseconds of a pass in evaluation mode without gradients; in bfloat16 weights and images have this dtype |",
        "| train | milliseconds of a step of AdamW with PyTorch's defaults; bfloat16 is autocast |",
        f"| decode | milliseconds of a token: `generate` of transformers adds {ADDED} tokens to a prompt of {PROMPT}, batch 1, with a cache"
        " of keys and values; the prompt's pass is a part of the time |",
        "",
        "- **Models.** BERT-base classifies sequences. GPT-2 and the two Llamas predict the next token. T5-small is its encoder alone.",
        "  Llama 12 x 768 has 12 heads and 4 heads of keys and values; Llama 8 x 512 has 8 of each. The other models classify images.",
        "  Sizes are batch x tokens, or batch x height x width. Attention is `scaled_dot_product_attention`. Dropout is zero.",
        "- **Times.** CPU device and rustdev run in one process, with the same number of threads, in alternating blocks of calls. A time",
        "  is the mean of the calls of the fastest block. There are seven blocks, or three if a call takes more than a second.",
        f"- **Results.** The outputs of inference differ by at most {parts['infer']}, as a part of the greatest output. The losses of",
        f"  three steps of training differ by at most {parts['train']}. The logits of each token differ by at most",
        f"  {parts['decode']}, as a part of the greatest; in float32 the tokens are the same.",
        "- **Fallback.** The device computes all operators: the fallback to PyTorch's CPU device is forbidden.",
        *fallbacks,
        "- **Memory.** The greatest of a pass, with weights, or of a step, with weights, gradients and AdamW's state. On the device it",
        "  is `torch.rustdev.max_memory_allocated()`. On the CPU device it is what the profiler tells, without the scratch memory of",
        "  oneDNN and MKL.",
        f"- **Compilers.** `torch.compile` and OpenVINO {versions['openvino']} run inference in float32. Each has a process of its own,",
        "  one after the other, and the same number of threads. OpenVINO computes in float32, as its default on some processors is",
        "  bfloat16, and gets the sizes of the inputs. `frozen` means that weights are constants (`TORCHINDUCTOR_FREEZING=1`), as they",
        "  are in the column `CPU, compiled`. The results are held against the CPU device's, as those of inference are.",
        "- **Others over ours.** The least time of the CPU device, `CPU, compiled` and OpenVINO, over the least time of the device,",
        "  compiled or not.",
        "",
    ]


def page(rows: list[Row], *, quick: bool) -> str:
    """Return the text of docs/real-models.md."""
    machine = f"{rustdev.get_device_name()} with {torch.backends.cpu.get_cpu_capability()}"
    threads = " and ".join(values(rows, "threads"))
    info = f"{machine}, {threads} threads, torch {torch.__version__}, rustdev {rustdev.__version__}, {dt.date.today()}"
    parts = [
        *introduction(),
        f"{info}." + (" A short run (`--quick`): not to be relied on." if quick else ""),
        "",
        "Geometric means and least values of the factors:",
        "",
        *summary(rows),
        "",
    ]
    for count, dtype in groups(rows):
        infer, train, decode = (some_rows(rows, count, dtype, kind) for kind in KINDS)
        parts += [f"## {dtype}, {count} thread{'s' if count != 1 else ''}", ""]
        if infer or train:
            parts += ["Inference and training:", "", *times(infer, train), ""]
        if decode:
            parts += ["Decoding, milliseconds of a token:", "", *tokens(decode), ""]
        found = [row for row in infer if row.over_ours is not None]
        if found:
            parts += ["Inference by all contenders:", "", *compilers(found), ""]
    failures = [f"- {row.model}, {row.threads} threads: {row.failures}" for row in rows if row.failures]
    if failures:
        parts += ["## What failed", "", "These contenders have no time:", "", *failures, ""]
    return "\n".join(parts).rstrip() + "\n"


def record(folder: Path, rows: list[Row]) -> list[Path]:
    """Write the rows to a table for each number of threads."""
    compiled = [f"{name.replace('_', ' ')} ms" for name in COMPILERS]
    columns = ["model", "dtype", "kind", "cpu ms", "device ms", "factor", *compiled, "others over ours", "cpu MiB", "device MiB"]

    def cells(row: Row) -> list[str]:
        spent = [milliseconds(getattr(row, name)) for name in COMPILERS]
        best = "" if row.over_ours is None else f"{row.over_ours:.2f}"
        measured = milliseconds(row.cpu), milliseconds(row.device), f"{row.factor:.2f}"
        return [row.model, row.dtype, row.kind, *measured, *spent, best, memory(row.host_peak), memory(row.peak), row.failures]

    counts = sorted({row.threads for row in rows})
    return [
        write_table(folder, "real", count, [*columns, "failures"], (cells(row) for row in rows if row.threads == count))
        for count in counts
    ]
