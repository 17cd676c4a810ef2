"""Results of the benchmark of language models: a table in benches/record/, and the last section of a page."""

import argparse
import datetime as dt
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import rustdev
import torch
from llm_contender import SIZES, WEIGHTS
from models_report import values, write_table

#: Greatest difference of the logits from those of the CPU device in float32, as a part of their norm.
TOLERANCES = {"float32": 1e-3, "bfloat16": 0.1, "int8": 0.1, "int4": 0.5}
TITLES = {"cpu": "CPU", "cpu_frozen": "CPU, frozen", "torchao": "torchao", "llama_cpp": "llama.cpp", "rustdev": "rustdev"}
HEADING = "## Measured"

INTRODUCTION = """\
`make bench-llm` writes this section and the tables `llm-*.csv` of benches/record/. The figures hold for the processor that is
named here: {machine}.

- **Model.** The shape is `{size}` of `examples/chat.py`: {layers} layers, {width} wide, {vocabulary} tokens; random weights.
- **Weights.** In `int8` and `int4` the activations are bfloat16. A group of int4 has 32 weights. llama.cpp has F16, Q8_0
  and Q4_0 for bfloat16, int8 and int4; its activations are float32, and 8 bits in products with weights of 8 and 4 bits.
- **Contenders.** Each has a process of its own and {threads}; their blocks of calls alternate, and the fastest counts. `CPU`
  is PyTorch's CPU device with the same modules. `frozen` is `torch.compile` with weights as constants
  (`TORCHINDUCTOR_FREEZING=1`). `torchao` is its `Int8WeightOnlyConfig`, compiled in the same way.{versions}
- **Times.** A prompt has {prompt} tokens. {tokens} more are read one by one; after each the likeliest next token is known.
- **Results.** The logits differ from those of the CPU device in float32 by less than this part of their norm:
  {tolerances}.
- **Over the others.** This factor is rustdev's figure over the greatest of the others.
"""


class Row(NamedTuple):
    """Tokens per second of a contender, and how far its logits are from those of float32; or why it has none."""

    threads: int
    size: str
    weights: str
    contender: str
    prompt: float | None = None
    decode: float | None = None
    difference: float | None = None
    failure: str = ""


def number(rate: float | None) -> str:
    """Return a rate; an empty string for None."""
    return "" if rate is None else f"{rate:.2f}"


def table(rows: list[Row], kind: str) -> Iterator[str]:
    """Yield a table of the rates of a kind: "prompt" or "decode"."""
    yield f"| weights | {' | '.join(TITLES.values())} | over the others |"
    yield f"|---|{'---:|' * (len(TITLES) + 1)}"
    for weights in values(rows, "weights"):
        rates = {row.contender: getattr(row, kind) for row in rows if row.weights == weights}
        ours, others = rates.get("rustdev"), [rate for name, rate in rates.items() if rate and name != "rustdev"]
        factor = f"**{ours / max(others):.2f}**" if ours and others else ""
        yield f"| {weights} | {' | '.join(number(rates.get(name)) for name in TITLES)} | {factor} |"


def tables(rows: list[Row]) -> Iterator[str]:
    """Yield the tables of prompts and of decoding, and what failed."""
    yield from ["Reading a prompt, tokens per second:", "", *table(rows, "prompt"), ""]
    yield from ["Decoding, tokens per second:", "", *table(rows, "decode")]
    failures = [f"- {TITLES[row.contender]}, {row.weights}: {row.failure}" for row in rows if row.failure]
    if failures:
        yield from ["", "These contenders have no figures:", "", *failures]


def versions() -> str:
    """Return a sentence with the releases of the libraries that are installed; an empty string without any."""
    installed = {distribution.metadata["Name"]: distribution.version for distribution in metadata.distributions()}
    found = [f"{library} {installed[library]}" for library in ("torchao", "llama_cpp_python") if library in installed]
    return f" Releases: {' and '.join(found)}." if found else ""


def section(rows: list[Row], options: argparse.Namespace) -> str:
    """Return the text of the section."""
    shape = SIZES[options.size]
    machine = f"{rustdev.get_device_name()} with {torch.backends.cpu.get_cpu_capability()}"
    threads = f"{options.threads} thread{'s' if options.threads > 1 else ''}"
    introduction = INTRODUCTION.format(
        machine=f"{machine}, torch {torch.__version__}, rustdev {rustdev.__version__}, {dt.date.today()}",
        layers=shape.layers, width=shape.width, vocabulary=shape.vocabulary, size=options.size, threads=threads,
        prompt=options.prompt, tokens=options.tokens, versions=versions(),
        tolerances=", ".join(f"{TOLERANCES[weights]:g} in {weights}" for weights in WEIGHTS),
    )  # fmt: skip
    short = ["A short run (`--quick`): not to be relied on.", ""] if options.quick else []
    return "\n".join([HEADING, "", introduction, *short, *tables(rows)]) + "\n"


def insert(page: Path, rows: list[Row], options: argparse.Namespace) -> None:
    """Write the section at the end of a page, in the place of an older one."""
    page.write_text(f"{page.read_text().partition(HEADING)[0].rstrip()}\n\n{section(rows, options)}")


def record(folder: Path, rows: list[Row]) -> Path:
    """Write the rows to a table."""
    columns = ["size", "weights", "contender", "prompt tokens/s", "decode tokens/s", "difference of logits", "failure"]

    def cells(row: Row) -> list[str]:
        off = "" if row.difference is None else f"{row.difference:.2e}"
        return [row.size, row.weights, row.contender, number(row.prompt), number(row.decode), off, row.failure]

    return write_table(folder, "llm", rows[0].threads, columns, map(cells, rows))
