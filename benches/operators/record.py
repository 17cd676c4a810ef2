"""Results of the benchmark of operators, and the machine that they were measured on: rows, and their tables in benches/record/."""

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from families import FAMILIES

#: Sizes at which the call overhead exceeds the computation: their pointwise operators are not compared with a copy.
SMALL = {"1", "1k"}
COLUMNS = ["family", "operator", "size", "dtype", "layout", "cpu us", "device us", "copy us", "factor", "copies"]
POINTWISE = {family.name for family in FAMILIES if family.pointwise}


@dataclass
class Row:
    """A measured case: seconds on both devices, and seconds of a copy of as many bytes if these are known."""

    family: str
    operator: str
    size: str
    dtype: str
    layout: str
    cpu: float
    device: float
    copy: float | None

    @property
    def factor(self) -> float:
        """Time on the CPU over time on the device."""
        return self.cpu / self.device

    @property
    def copies(self) -> float | None:
        """Time of the operator over that of a copy of as many bytes; None if it is not measured."""
        return self.device / self.copy if self.copy else None

    @property
    def is_held_to_copies(self) -> bool:
        """Whether the operator should take about the time of a copy."""
        return self.family in POINTWISE and self.layout == "contiguous" and self.size not in SMALL

    @property
    def is_fresh(self) -> bool:
        """Whether a pointwise result has 64 MiB: the CPU's allocator does not cache so much and gets new pages in each call."""
        return self.is_held_to_copies and (self.size, self.dtype) == ("16M", "float32") and "in place" not in self.family


class Level(NamedTuple):
    """A level of the memory hierarchy: bytes of two buffers that fill half of it, and the rate of copies between them in GB/s."""

    name: str
    bytes: int
    rate: float


@dataclass
class Machine:
    """The machine and the software of a table.

    Attributes:
        device: Name of the device, which includes that of the processor.
        instructions: Instruction set of PyTorch's CPU device.
        threads: Number of threads of both devices.
        torch: Version of PyTorch.
        rustdev: Version of rustdev.
        quick: Whether sizes were left out.
        levels: Bandwidth of the memory hierarchy.
    """

    device: str
    instructions: str
    threads: int
    torch: str
    rustdev: str
    quick: bool
    levels: list[Level]

    @property
    def slug(self) -> str:
        """Processor and number of threads, as part of file names."""
        return slug(self.device, self.threads)


def slug(processor: str, threads: int) -> str:
    """Return a processor and a number of threads as part of file names."""
    return f"{re.sub(r'[^a-z0-9]+', '-', processor.lower()).strip('-')}-{threads}-threads"


def write(folder: Path, machine: Machine, rows: list[Row]) -> Path:
    """Write both tables to files named after the processor, and return the path of the table of rows."""
    facts = [(name, "", value) for name, value in vars(machine).items() if name != "levels"]
    levels = [(level.name, level.bytes, f"{level.rate:.6g}") for level in machine.levels]
    write_table(folder / f"machine-{machine.slug}.csv", ["name", "bytes", "value"], [*facts, *levels])
    path = folder / f"operators-{machine.slug}.csv"
    write_table(path, COLUMNS, map(cells, rows))
    return path


def write_table(path: Path, columns: list[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a CSV table with its header, and make its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(columns)
        table.writerows(rows)


def cells(row: Row) -> list[object]:
    """Return a row of the table: times in microseconds."""
    place = (row.family, row.operator, row.size, row.dtype, row.layout)
    times = [f"{seconds * 1e6:.6g}" if seconds else "" for seconds in (row.cpu, row.device, row.copy)]
    return [*place, *times, f"{row.factor:.2f}", f"{row.copies:.2f}" if row.copies else ""]


def read(path: Path) -> tuple[Machine, list[Row]]:
    """Read the tables that `write` has written.

    Args:
        path: Table of the rows. The table of the machine is in the same folder.
    """
    with path.open(newline="") as file:
        rows = [row_of(cells) for cells in csv.DictReader(file)]
    with path.with_name(path.name.replace("operators-", "machine-", 1)).open(newline="") as file:
        return machine_of(list(csv.DictReader(file))), rows


def row_of(cells: dict[str, str]) -> Row:
    """Parse a row of the table. The factors are computed from the times."""
    cpu, device = (float(cells[column]) / 1e6 for column in ("cpu us", "device us"))
    copy = float(cells["copy us"]) / 1e6 if cells["copy us"] else None
    family, operator, size, dtype, layout = (cells[column] for column in COLUMNS[:5])
    return Row(family, operator, size, dtype, layout, cpu, device, copy)


def machine_of(table: list[dict[str, str]]) -> Machine:
    """Parse the table of the machine."""
    facts = {cells["name"]: cells["value"] for cells in table if not cells["bytes"]}
    levels = [Level(cells["name"], int(cells["bytes"]), float(cells["value"])) for cells in table if cells["bytes"]]
    device, instructions, torch, rustdev = (facts[name] for name in ("device", "instructions", "torch", "rustdev"))
    return Machine(device, instructions, int(facts["threads"]), torch, rustdev, facts["quick"] == "True", levels)
