"""Report of the benchmark of operators: a page and a plot; and a measurement of copy bandwidth.

    python benches/operators/report.py benches/record/operators-....csv --output docs/benchmarks.md

writes the page and its plot from a table that `compare.py` has written.
"""

import argparse
import ctypes
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import rustdev
import torch
from families import FAMILIES
from record import SMALL, Level, Machine, Row, read

#: Factor below which a case counts as slower than on the CPU; smaller differences are noise.
SLOWER = 0.95
#: Limit of a pointwise operator's time, in copies of as many bytes.
COPIES = 1.3
#: Number of rows in the lists of the worst cases.
WORST = 20


@dataclass(frozen=True)
class Aim:
    """Target for the factor of some cases, each or in the mean."""

    name: str
    factor: float
    is_meant: Callable[[Row], bool]
    is_of_mean: bool = False


def of_operator(name: str) -> Aim:
    """Return the target for a single operator."""
    assert any(name in family.operators for family in FAMILIES), name
    return Aim(name, 4.0, lambda row: row.operator == name)


AIMS = [
    Aim("all", 2.5, lambda _: True, is_of_mean=True),
    Aim("one element", 1 / 0.7, lambda row: row.size == "1", is_of_mean=True),
    *map(of_operator, ("argmax", "cumsum", "sort", "var", "randn", "dropout", "where", "contiguous of a transposed")),
    Aim("pointwise, 16M float32, into fresh memory", 3.0, lambda row: row.is_fresh),
    Aim("optimizers", 2.0, lambda row: row.family == "optimizers"),
]


def mean(rows: list[Row]) -> float:
    """Return the geometric mean of the factors."""
    return statistics.geometric_mean(row.factor for row in rows)


def duration(seconds: float) -> str:
    """Return a time with three significant digits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def summary(rows: list[Row]) -> list[str]:
    """Return a summary of the table, as sentences."""
    slower = sum(row.factor < SLOWER for row in rows)
    sentences = [f"{len(rows)} cases, geometric mean {mean(rows):.2f}; {slower} below {SLOWER}."]
    ones = [row for row in rows if row.size == "1"]
    if ones:
        sentences.append(f"Of one element: {len(ones)} cases, the device takes {1 / mean(ones):.2f} of the CPU's time in the mean.")
    held = [row for row in rows if row.is_held_to_copies]
    if held:
        copies = [row.copies for row in held if row.copies]
        near = sum(count <= COPIES for count in copies)
        counts = f"{near} of {len(copies)} pointwise cases within {COPIES}"
        sentences.append(f"Beside a copy of the same bytes: {counts}, median {statistics.median(copies):.2f}.")
        bound = statistics.geometric_mean(row.cpu / row.copy for row in held if row.copy)
        sentences.append(f"In a copy's time they would be {bound:.2f} times as fast as the CPU in the mean.")
    return sentences


def cases(rows: list[Row]) -> Iterator[str]:
    """Yield a table of single cases."""
    yield "| family | operator | size | dtype | layout | CPU | rustdev | factor | copies |"
    yield "|---|---|---|---|---|---:|---:|---:|---:|"
    for row in rows:
        place = f"{row.family} | {row.operator} | {row.size} | {row.dtype} | {row.layout}"
        copies = f"{row.copies:.2f}" if row.copies else ""
        yield f"| {place} | {duration(row.cpu)} | {duration(row.device)} | {row.factor:.2f} | {copies} |"


def by(rows: list[Row], column: str) -> dict[str, list[Row]]:
    """Group the rows by the value of a column."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(getattr(row, column), []).append(row)
    return groups


def means(rows: list[Row], column: str) -> Iterator[str]:
    """Yield a table of the factors for each value of a column."""
    yield f"| {column} | cases | geometric mean | least | greatest |"
    yield "|---|---:|---:|---:|---:|"
    for value, mine in by(rows, column).items():
        factors = [row.factor for row in mine]
        yield f"| {value} | {len(mine)} | {mean(mine):.2f} | {min(factors):.2f} | {max(factors):.2f} |"


def aims(rows: list[Row]) -> Iterator[str]:
    """Yield a table of the targets and how far they are reached."""
    yield "| | aim | geometric mean | cases | reach the aim | of 64k and more | reach it |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for aim in AIMS:
        mine = [row for row in rows if aim.is_meant(row)]
        if mine:
            large = [row for row in mine if row.size not in SMALL]
            reached = ["" if aim.is_of_mean else str(sum(row.factor >= aim.factor for row in some)) for some in (mine, large)]
            counts = f"{len(mine)} | {reached[0]} | {len(large)} | {reached[1]}"
            yield f"| {aim.name} | {aim.factor:.2f} | {mean(mine):.2f} | {counts} |"


def link(target: Path, page: Path) -> str:
    """Return the relative link from a page to another file."""
    return Path(os.path.relpath(target, page.parent)).as_posix()


def page(table: Path, output: Path) -> str:
    """Return the text of docs/benchmarks.md.

    Args:
        table: Table of rows that `record.write` has written.
        output: Path of the page, to which its links are relative.
    """
    machine, rows = read(table)
    worst = sorted(rows, key=lambda row: row.factor)[:WORST]
    farthest = sorted((row for row in rows if row.is_held_to_copies), key=lambda row: -(row.copies or 0))[:WORST]
    limits = Path(__file__).with_name("limits.md")
    parts = [
        "# Benchmarks",
        "",
        "Operators beside PyTorch's CPU device, both in one process, a new one for each family, with the same number of threads,",
        "in alternating blocks, of which the least counts, results checked: `make bench` writes this page. A factor is the CPU's",
        "time over the device's; it holds for the processor that is named here. `copies` is the device's time over that of its own",
        "copy of as many bytes as the operator's arguments and results have together, half of them read and half written.",
        "",
        described(machine),
        "",
        f"**{' '.join(summary(rows))}**",
        "",
        f"Every case is in [benches/record/]({link(table, output)}).",
        f"[What limits]({link(limits, output)}) tells what was found where a case is slower than the CPU's or far from a",
        "copy, and where an aim is missed.",
        "",
        f"![factors by family]({output.with_suffix('.png').name})",
        "",
        *means(rows, "family"),
        "",
        *means(rows, "size"),
        "",
        "## The machine",
        "",
        "Bytes read and written by one thread's `memmove`, the time of a call without bytes taken off.",
        "",
        *levels(machine),
        "",
        f"## The {len(worst)} slowest beside the CPU",
        "",
        *cases(worst),
    ]
    if farthest:
        parts += ["", f"## The {len(farthest)} farthest from a copy", "", *cases(farthest)]
    parts += ["", "## Aims", "", *aims(rows)]
    return "\n".join(parts) + "\n"


def described(machine: Machine) -> str:
    """Return a sentence on the machine."""
    versions = f"torch {machine.torch}, rustdev {machine.rustdev}"
    left_out = " The largest and the second smallest sizes are left out (`--quick`)." if machine.quick else ""
    return f"{machine.device} with {machine.instructions}, {machine.threads} threads, {versions}.{left_out}"


def levels(machine: Machine) -> Iterator[str]:
    """Yield a table of the copy bandwidth at each level of the memory hierarchy."""
    yield "| level | bytes of both buffers | GB/s |"
    yield "|---|---:|---:|"
    for level in machine.levels:
        yield f"| {level.name} | {level.bytes} | {level.rate:.0f} |"


def plot(rows: list[Row], file: Path) -> None:
    """Draw the factors of each family."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FormatStrFormatter

    families = by(rows, "family")
    figure, axes = plt.subplots(figsize=(9, 1 + 0.32 * len(families)), layout="constrained")
    for place, mine in enumerate(families.values()):
        # Vertical offsets keep points from overlapping. They are deterministic, so that the same figures yield the same picture.
        heights = [place + 0.3 * ((7 * index % 11) / 10 - 0.5) for index in range(len(mine))]
        axes.scatter([row.factor for row in mine], heights, s=9, alpha=0.5, linewidths=0)
        axes.plot([mean(mine)] * 2, [place - 0.35, place + 0.35], color="black", linewidth=1.5)
    axes.axvline(1, color="gray", linewidth=0.8)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.set_yticks(range(len(families)), list(families))
    axes.invert_yaxis()
    axes.set_xlabel("CPU's time over the device's (bars: geometric means)")
    figure.savefig(file, dpi=110, metadata={"Software": ""})
    plt.close(figure)


def caches() -> list[tuple[str, int]]:
    """Return the names and sizes in bytes of the data caches, from sysfs."""
    found = []
    for cache in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if (cache / "type").read_text().strip() != "Instruction":
            kibibytes = int((cache / "size").read_text().strip().removesuffix("K"))
            found.append((f"L{(cache / 'level').read_text().strip()}", kibibytes << 10))
    return found


def this_machine(*, quick: bool) -> Machine:
    """Return the machine of this process."""
    capability = torch.backends.cpu.get_cpu_capability()
    versions = str(torch.__version__), rustdev.__version__
    return Machine(rustdev.get_device_name(), capability, torch.get_num_threads(), *versions, quick, list(bandwidths()))


def bandwidths() -> Iterator[Level]:
    """Measure and yield the levels of the memory hierarchy."""
    sizes = [(name, size // 2) for name, size in caches()]
    sizes.append(("memory", max([4 * size for _, size in sizes], default=0) + (64 << 20)))
    for name, size in sizes:
        half = size // 2
        source, target = torch.ones(half, dtype=torch.uint8), torch.zeros(half, dtype=torch.uint8)
        yield Level(name, size, size / moving(source, target, half) / 1e9)


def moving(source: torch.Tensor, target: torch.Tensor, count: int) -> float:
    """Return the seconds of a copy of ``count`` bytes minus those of an empty call, each the minimum of alternating blocks."""
    addresses = target.data_ptr(), source.data_ptr()
    repeats = max(3, min(500, (64 << 20) // count))
    least = {count: math.inf, 0: math.inf}
    for _ in range(9 if repeats == 3 else 100):
        for size in least:
            start = time.perf_counter()
            for _ in range(repeats):
                ctypes.memmove(*addresses, size)
            least[size] = min(least[size], (time.perf_counter() - start) / repeats)
    return least[count] - least[0]


def write_page(table: Path, output: Path) -> None:
    """Write the page and its plot from a table."""
    output.write_text(page(table, output))
    plot(read(table)[1], output.with_suffix(".png"))


def main(arguments: list[str]) -> None:
    """Write a page from a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, help="a table of benches/record/")
    parser.add_argument("--output", type=Path, required=True, help="where the page goes, its plot beside it")
    options = parser.parse_args(arguments)
    write_page(options.table, options.output)


if __name__ == "__main__":
    main(sys.argv[1:])
