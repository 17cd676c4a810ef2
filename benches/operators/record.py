"""What was measured of operators, and on which machine: rows, and their tables in benches/record/."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

#: The sizes at which a call costs more than its work: their pointwise operators are not held against a copy.
SMALL = {"1", "1k"}
COLUMNS = ["family", "operator", "size", "dtype", "layout", "cpu us", "device us", "copy us", "factor", "copies"]
POINTWISE = {family.name for family in FAMILIES if family.pointwise}


@dataclass
class Row:
    """A measured case: seconds on both devices, and of a copy of the same bytes where these are known."""

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
        """How many times faster the device is."""
        return self.cpu / self.device

    @property
    def copies(self) -> float | None:
        """How many copies of the same bytes the device makes in the operator's time."""
        return self.device / self.copy if self.copy else None

    @property
    def is_held_to_copies(self) -> bool:
        """Whether the operator shall take about the time of a copy."""
        return self.family in POINTWISE and self.layout == "contiguous" and self.size not in SMALL

    @property
    def is_fresh(self) -> bool:
        """Whether a pointwise operator gives 64 MiB: more than the CPU's allocator keeps, so that it pays for pages each time."""
        return self.is_held_to_copies and (self.size, self.dtype) == ("16M", "float32") and "in place" not in self.family


class Level(NamedTuple):
    """A level of memory: the bytes of two buffers that fill half of it, and how many GB/s go between them."""

    name: str
    bytes: int
    rate: float


@dataclass
class Machine:
    """Where a table was measured, and with what.

    Attributes:
        device: the device's name, which has the processor's.
        instructions: the instruction set of PyTorch's CPU device.
        threads: the number of threads of both devices.
        torch: the version of PyTorch.
        rustdev: the version of rustdev.
        quick: whether sizes were left out.
        levels: how fast the machine copies.
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
        """The part of a file's name that tells tables of different processors and numbers of threads apart."""
        return f"{re.sub(r'[^a-z0-9]+', '-', self.device.lower()).strip('-')}-{self.threads}-threads"


def write(folder: Path, machine: Machine, rows: list[Row]) -> Path:
    """Write both tables to the files that are named after the processor; return the one of the rows."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = [(name, "", value) for name, value in vars(machine).items() if name != "levels"]
    levels = [(level.name, level.bytes, f"{level.rate:.6g}") for level in machine.levels]
    write_table(folder / f"machine-{machine.slug}.csv", ["name", "bytes", "value"], [*facts, *levels])
    path = folder / f"operators-{machine.slug}.csv"
    write_table(path, COLUMNS, map(cells, rows))
    return path


def write_table(path: Path, columns: list[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a table with its head."""
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
    """Return what `write` has written.

    Args:
        path: the table of the rows, beside which that of the machine lies.
    """
    with path.open(newline="") as file:
        rows = [row_of(cells) for cells in csv.DictReader(file)]
    with path.with_name(path.name.replace("operators-", "machine-", 1)).open(newline="") as file:
        return machine_of(list(csv.DictReader(file))), rows


def row_of(cells: dict[str, str]) -> Row:
    """Return a row of the table; the factors follow from the times."""
    cpu, device = (float(cells[column]) / 1e6 for column in ("cpu us", "device us"))
    copy = float(cells["copy us"]) / 1e6 if cells["copy us"] else None
    family, operator, size, dtype, layout = (cells[column] for column in COLUMNS[:5])
    return Row(family, operator, size, dtype, layout, cpu, device, copy)


def machine_of(table: list[dict[str, str]]) -> Machine:
    """Return the machine of a table's rows."""
    facts = {cells["name"]: cells["value"] for cells in table if not cells["bytes"]}
    levels = [Level(cells["name"], int(cells["bytes"]), float(cells["value"])) for cells in table if cells["bytes"]]
    device, instructions, torch, rustdev = (facts[name] for name in ("device", "instructions", "torch", "rustdev"))
    return Machine(device, instructions, int(facts["threads"]), torch, rustdev, facts["quick"] == "True", levels)
