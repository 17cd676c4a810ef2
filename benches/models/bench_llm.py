"""Compare a language model on rustdev with PyTorch's CPU device, torchao and llama.cpp: tokens per second.

    python benches/models/bench_llm.py [--size 1b|124m|tiny] [--weights NAME ...] [--contenders NAME ...] [--threads N]
                                       [--quick] [--output FOLDER] [--page FILE.md]

Every contender runs in a process of its own (llm_contender.py) with the same number of threads. A block is a prompt, and tokens
that are read one by one; the blocks of the contenders alternate, and the least time of each counts. Where the memory is too
small for all contenders at once, those that fit are measured together, then the others. The logits of each are compared with
those of the CPU device in float32. A contender whose library is not installed has no figures.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import torch
from llm_contender import ENVIRONMENTS, MISSING, SIZES, WEIGHTS
from llm_report import TOLERANCES, Row, insert, record, tables

PROGRAM = Path(__file__).with_name("llm_contender.py")
#: Blocks of each contender; tokens of the prompt and after it; the same for `--quick`.
BLOCKS, PROMPT, TOKENS = 3, 256, 32
QUICK_BLOCKS, QUICK_PROMPT, QUICK_TOKENS = 1, 32, 4
LIBRARIES = {"torchao": ("torchao",), "llama_cpp": ("llama_cpp", "gguf")}
#: Bytes of a weight, and how many copies of the weights a contender has while it is made, at most.
BYTES = {"float32": 4.0, "bfloat16": 2.0, "int8": 1.0, "int4": 0.625}
COPIES = {"cpu": 1.5, "cpu_frozen": 4.0, "torchao": 5.0, "llama_cpp": 2.0, "rustdev": 1.5}


class NoFiguresError(Exception):
    """A contender has no figures; the text says why."""


class Worker:
    """A contender in a process of its own.

    Args:
        name: Contender.
        weights: Its weights.
        options: The command line.
        folder: Folder of its files.

    Raises:
        NoFiguresError: If the process ends before it is ready, or its library is not installed.
    """

    def __init__(self, name: str, weights: str, options: argparse.Namespace, folder: Path) -> None:
        absent = [library for library in LIBRARIES.get(name, ()) if find_spec(library) is None]
        if absent:
            raise NoFiguresError(f"{' and '.join(absent)} not installed")
        self.result, self.errors = folder / f"{name}-{weights}.pt", folder / f"{name}-{weights}.txt"
        command = [sys.executable, str(PROGRAM), name, weights, str(self.result), "--size", options.size]
        command += ["--threads", str(options.threads), "--prompt", str(options.prompt), "--tokens", str(options.tokens)]
        if name == "llama_cpp":
            import llm_gguf

            file = folder / f"{weights}.gguf"
            llm_gguf.write(file, options.size, weights, options.prompt + options.tokens)
            command += ["--gguf", str(file)]
        threads = {"OMP_NUM_THREADS": str(options.threads), "RUSTDEV_NUM_THREADS": str(options.threads)}
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                command, env=ENVIRONMENTS[name] | os.environ | threads,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        while self.line() != "ready":
            pass

    def line(self) -> str:
        """Return the next line that the process prints.

        Raises:
            NoFiguresError: If the process has ended.
        """
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            said = self.errors.read_text().strip().splitlines()
            raise NoFiguresError(said[-1] if said else f"status {self.process.wait()}")
        return line.strip()

    def block(self) -> tuple[float, float]:
        """Return the seconds of a prompt and of the tokens after it."""
        assert self.process.stdin is not None
        print(file=self.process.stdin, flush=True)
        prompt, tokens = map(float, self.line().split())
        return prompt, tokens

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def available() -> float:
    """Return the bytes of memory that the system can give."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return float(next(line for line in lines if line.startswith("MemAvailable")).split()[1]) * 1024


def need(name: str, weights: str, size: str) -> float:
    """Return the bytes that a contender needs, roughly."""
    shape = SIZES[size]
    layer = shape.width * (2 * shape.width + 2 * shape.key_heads * shape.head + 3 * shape.hidden)
    return COPIES[name] * BYTES[weights] * (shape.layers * layer + 2 * shape.vocabulary * shape.width) + 2**30


def together(names: list[str], weights: str, size: str) -> Iterator[list[str]]:
    """Yield the contenders in groups that fit into the memory."""
    group: list[str] = []
    for name in names:
        if group and sum(need(one, weights, size) for one in [*group, name]) > available():
            yield group
            group = []
        group.append(name)
    yield group


def difference(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Return the norm of the difference of logits over the norm of those of the CPU device in float32."""
    return float((found - wanted).norm() / wanted.norm())


def begin(name: str, weights: str, options: argparse.Namespace, folder: Path, wanted: torch.Tensor) -> tuple[Worker | None, Row]:
    """Return the process of a contender, or None, and a row without times: how far its logits are off, or why it has none."""
    row = Row(options.threads, options.size, weights, name)
    try:
        worker = Worker(name, weights, options, folder)
    except NoFiguresError as error:
        return None, row._replace(failure=str(error))
    off = difference(torch.load(worker.result), wanted)
    if off < TOLERANCES[weights]:
        return worker, row._replace(difference=off)
    worker.close()
    return None, row._replace(difference=off, failure=f"logits are off by {off:.1e}, and {TOLERANCES[weights]:g} is allowed")


def measure(names: list[str], weights: str, options: argparse.Namespace, folder: Path, wanted: torch.Tensor) -> Iterator[Row]:
    """Yield the rows of some contenders, whose blocks alternate."""
    begun = {name: begin(name, weights, options, folder, wanted) for name in names}
    rows = {name: row for name, (_, row) in begun.items()}
    workers = {name: worker for name, (worker, _) in begun.items() if worker}
    times = [{name: worker.block() for name, worker in workers.items()} for _ in range(options.blocks)]
    for name, worker in workers.items():
        worker.close()
        prompt, tokens = (min(some[name][part] for some in times) for part in (0, 1))
        rows[name] = rows[name]._replace(prompt=options.prompt / prompt, decode=options.tokens / tokens)
    yield from rows.values()


def run(options: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of all weights and contenders."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        reference = Worker("cpu", "float32", options, folder)
        reference.close()
        wanted = torch.load(reference.result)
        for weights in options.weights:
            names = [name for name in options.contenders if (name, weights) not in MISSING]
            for group in together(names, weights, options.size):
                yield from measure(group, weights, options, folder, wanted)


def show(row: Row) -> None:
    """Print a row."""
    rates = f"prompt {row.prompt:10.2f} decode {row.decode:10.2f} tokens/s" if row.prompt and row.decode else row.failure
    print(f"{row.threads} {row.size} {row.weights:9}{row.contender:11}{rates}", flush=True)


def main(arguments: list[str]) -> None:
    """Measure, print the results as they come, and write table and page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="1b")
    parser.add_argument("--weights", nargs="+", choices=WEIGHTS, default=WEIGHTS, help="default: all")
    parser.add_argument("--contenders", nargs="+", choices=ENVIRONMENTS, default=list(ENVIRONMENTS), help="default: all")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of every contender")
    parser.add_argument("--quick", action="store_true", help="a short run, whose figures mean little")
    parser.add_argument("--output", type=Path, help="the folder that the table goes to; without, none is written")
    parser.add_argument("--page", type=Path, metavar="FILE.md", help="the page whose last section has the results")
    options = parser.parse_args(arguments)
    short = options.quick
    options.blocks, options.prompt = (QUICK_BLOCKS, QUICK_PROMPT) if short else (BLOCKS, PROMPT)
    options.tokens = QUICK_TOKENS if short else TOKENS
    rows: list[Row] = []
    for row in run(options):
        rows.append(row)
        show(row)
        if options.output:  # after each row: an interrupted run keeps its rows
            record(options.output, rows)
    print(*tables(rows), sep="\n")
    if options.page:
        insert(options.page, rows, options)
        print(options.page)


if __name__ == "__main__":
    main(sys.argv[1:])
