"""Results of the benchmark of real models: tables in benches/record/, and a page."""

import datetime as dt
import statistics
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import rustdev
import torch
from measuring import BLOCKS, LONG, LONG_BLOCKS, LONGEST
from models_report import memory, values, write_table
from real_models import ADDED, FALLBACKS, PROMPT

KINDS = ["infer", "train", "decode"]
#: Greatest difference of results, as a part of the greatest output or logit, of the first loss, or of the norm of the gradients.
TOLERANCES = {
    "infer": {"float32": 1e-4, "bfloat16": 5e-2},
    "train": {"float32": 1e-4, "bfloat16": 3e-2},
    "gradients": {"float32": 5e-2, "bfloat16": 3e-1},
    "later losses": {"float32": 3e-2, "bfloat16": 5e-2},
    "decode": {"float32": 1e-4, "bfloat16": 5e-2},
}
#: Columns of the page for contenders that run alone.
COMPILERS = {
    "cpu_frozen": "CPU, frozen",
    "openvino": "OpenVINO",
    "device_compiled": "device, compiled",
    "device_frozen": "device, frozen",
}

INTRODUCTION = """\
# Real models

This page compares known models on rustdev with what else runs them on a processor: PyTorch's CPU device, `torch.compile` and
OpenVINO. The models are those of transformers {transformers} and torchvision {torchvision}. They have usual sizes and random
weights. `make bench-real` writes this page and the tables `real-*.csv` of benches/record/. [Models](models.md) has smaller models.

A factor is the CPU device's time over rustdev's. A factor above 1 means that rustdev is faster. The factors hold for the processor
that is named below.

| kind | what a time is |
|---|---|
| infer | milliseconds of a pass in evaluation mode without gradients; in bfloat16 the weights and images have this dtype |
| train | milliseconds of a step of AdamW with PyTorch's defaults; bfloat16 is autocast |
| decode | milliseconds of a token; `generate` of transformers adds {added} tokens to a prompt of {prompt}, batch 1, with a cache |

- **Models.** BERT-base classifies sequences. GPT-2 and the Llamas predict the next token. T5-small is its encoder alone. Llama
  12 x 768 has 12 heads of queries and 4 of keys and values. Llama 8 x 512 has 8 heads of each. The other models classify images.
  The sizes are batch x tokens, or batch x height x width. The attention is `scaled_dot_product_attention`. Dropout is zero.
- **Times.** The CPU device and rustdev run in one process, with the same number of threads, in alternating blocks of calls. A time
  is the mean of the calls of the fastest block. There are {blocks} blocks. There are {long_blocks} where a call takes more than
  {long:g} s on the CPU device, and one where it takes more than {longest:g} s.
- **Decoding.** The model writes the likeliest token each time. The time includes the pass of the prompt.
- **Results.** Both devices start from the same weights and inputs. Their results are compared before they are measured. The
  tolerance is a part of the greatest output in inference ({infer}) and of the greatest
  logit in decoding ({decode}). In float32 the written tokens are the same. In training it is a
  part of the loss ({train}) and of the norm of the gradients ({gradients})
  in the first step. The losses of the second and the third step have a wider tolerance, as a part of the first
  ({later_losses}): AdamW's first step changes each weight by the sign of its gradient, and a
  deep network enlarges the rounding of sums. The losses of ResNet-50 differ as much between one and two threads of the CPU device.
- **Fallback.** rustdev computes all operators. The fallback to PyTorch's CPU device is forbidden.
{allowed}- **Memory.** The memory of inference is the greatest of a pass, with the weights. The memory of training is the
  greatest of a step, with weights, gradients and AdamW's state. `torch.rustdev.max_memory_allocated()` reports it. For the CPU
  device the profiler reports it, without the scratch memory of oneDNN and MKL, and only where a call is shorter than {longest:g} s.
- **All contenders.** The compilers have inference in float32 alone. Each runs in a process of its own, one after the other, with
  the same number of threads. Their outputs have the tolerance of inference. `compiled` is `torch.compile`. `frozen` is the same
  with weights as constants (`TORCHINDUCTOR_FREEZING=1`). OpenVINO {openvino} gets the sizes of the inputs and computes in float32;
  on some processors it would choose bfloat16.
- **Others over ours.** This factor is the least time of the CPU device, compiled or not, and of OpenVINO over the least time of
  rustdev, compiled or not.
"""


class Row(NamedTuple):
    """Result of a model: times in milliseconds, and peak memory of both devices in MiB.

    The time of the kind `decode` is that of one token. Compilers have times in float32 inference only.
    """

    threads: int
    model: str
    dtype: str
    kind: str
    cpu: float
    device: float
    host_peak: float | None = None
    peak: float | None = None
    compiled: Mapping[str, float] = MappingProxyType({})
    failures: str = ""

    @property
    def factor(self) -> float:
        """Time on the CPU over time on the device."""
        return self.cpu / self.device

    @property
    def over_ours(self) -> float | None:
        """Least time of the others over the device's least; None if no compiler has a time."""
        ours = [spent for contender, spent in self.compiled.items() if contender.startswith("device")]
        others = [spent for contender, spent in self.compiled.items() if not contender.startswith("device")]
        return min([self.cpu, *others]) / min([self.device, *ours]) if self.compiled else None


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
    spent = "infer: CPU | device | factor | train: CPU | device | factor"
    yield f"| model | {spent} | infer, MiB: CPU | device | train, MiB: CPU | device |"
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
    yield "| model | CPU | CPU, frozen | OpenVINO | device | device, compiled | device, frozen | others over ours |"
    yield f"|---|{'---:|' * 7}"
    for row in rows:
        found = [row.compiled.get(contender) for contender in COMPILERS]
        spent = (row.cpu, *found[:2], row.device, *found[2:])
        yield f"| {row.model} | {' | '.join(map(milliseconds, spent))} | **{row.over_ours:.2f}** |"


def tokens(rows: list[Row]) -> Iterator[str]:
    """Yield a table of the milliseconds of a token."""
    yield "| model | CPU | device | factor | MiB: device |"
    yield f"|---|{'---:|' * 4}"
    for row in rows:
        cells = [row.model, milliseconds(row.cpu), milliseconds(row.device), f"**{row.factor:.2f}**", memory(row.peak)]
        yield f"| {' | '.join(cells)} |"


def introduction() -> str:
    """Return the text that says what is compared."""
    versions = {name: metadata.version(name) for name in ("transformers", "torchvision", "openvino")}
    parts = {name: " and ".join(f"{part:g} in {dtype}" for dtype, part in some.items()) for name, some in TOLERANCES.items()}
    allowed = "".join(f"  It is allowed for {name}: {reason}\n" for name, reason in FALLBACKS.items())
    return INTRODUCTION.format(
        **versions, **{name.replace(" ", "_"): part for name, part in parts.items()},
        added=ADDED, prompt=PROMPT, allowed=allowed, blocks=BLOCKS, long_blocks=LONG_BLOCKS, long=LONG, longest=LONGEST,
    )  # fmt: skip


def page(rows: list[Row], *, quick: bool) -> str:
    """Return the text of docs/real-models.md."""
    machine = f"{rustdev.get_device_name()} with {torch.backends.cpu.get_cpu_capability()}"
    threads = " and ".join(values(rows, "threads"))
    info = f"{machine}, {threads} threads, torch {torch.__version__}, rustdev {rustdev.__version__}, {dt.date.today()}"
    parts = [
        introduction(),
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
            parts += ["Inference and training, milliseconds:", "", *times(infer, train), ""]
        if decode:
            parts += ["Decoding, milliseconds of a token:", "", *tokens(decode), ""]
        found = [row for row in infer if row.over_ours is not None]
        if found:
            parts += ["Inference by all contenders, milliseconds:", "", *compilers(found), ""]
    failures = [f"- {row.model}, {row.threads} threads: {row.failures}" for row in rows if row.failures]
    if failures:
        parts += ["## What failed", "", "These contenders have no time:", "", *failures, ""]
    return "\n".join(parts).rstrip() + "\n"


def record(folder: Path, rows: list[Row]) -> list[Path]:
    """Write the rows to a table for each number of threads."""
    compiled = [f"{name.replace('_', ' ')} ms" for name in COMPILERS]
    columns = ["model", "dtype", "kind", "cpu ms", "device ms", "factor", *compiled, "others over ours", "cpu MiB", "device MiB"]

    def cells(row: Row) -> list[str]:
        spent = [milliseconds(row.compiled.get(contender)) for contender in COMPILERS]
        best = "" if row.over_ours is None else f"{row.over_ours:.2f}"
        measured = milliseconds(row.cpu), milliseconds(row.device), f"{row.factor:.2f}"
        return [row.model, row.dtype, row.kind, *measured, *spent, best, memory(row.host_peak), memory(row.peak), row.failures]

    counts = sorted({row.threads for row in rows})
    return [
        write_table(folder, "real", count, [*columns, "failures"], (cells(row) for row in rows if row.threads == count))
        for count in counts
    ]
