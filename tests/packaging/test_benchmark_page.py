"""docs/benchmarks.md is generated from the tables in benches/record/, and README.md has the figures of these tables."""

import csv
import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import record
import report

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/benchmarks.md"
TABLES = sorted((ROOT / "benches/record").glob("operators-*.csv"))


def test_the_page_is_that_of_a_table() -> None:
    assert PAGE.read_text() in [report.page(table, PAGE) for table in TABLES]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_a_table_is_read_as_it_was_written(table: Path, tmp_path: Path) -> None:
    machine, rows = record.read(table)
    written = record.write(tmp_path, machine, rows)
    assert written.name == table.name
    assert written.read_bytes() == table.read_bytes()
    assert (tmp_path / f"machine-{machine.slug}.csv").read_bytes() == (table.parent / f"machine-{machine.slug}.csv").read_bytes()


def test_a_case_without_a_copy_has_none(tmp_path: Path) -> None:
    machine = record.Machine("rustdev (A, B)", "AVX2", 3, "2.15.0", "0.1.0", quick=True, levels=[record.Level("L1", 16384, 1.5)])
    row = record.Row("optimizers", "AdamW", "25M", "float32", "contiguous", 2e-3, 1e-3, None)
    table = record.write(tmp_path, machine, [row])
    assert table.name == "operators-rustdev-a-b-3-threads.csv"
    assert record.read(table) == (machine, [row])


def every(_: dict[str, str]) -> bool:
    return True


AMD, INTEL = "rustdev-amd-epyc-2-threads", "rustdev-intel-r-xeon-r-processor-2-threads"
#: The rows of README.md's table: how each begins, the table of its cases, and which of them it has.
FIGURES: list[tuple[str, str, Callable[[dict[str, str]], bool]]] = [
    ("[operators]", f"operators-{AMD}", every),
    ("operators on one element", f"operators-{AMD}", lambda row: row["size"] == "1"),
    ("operators on 16M elements", f"operators-{AMD}", lambda row: row["size"] == "16M"),
    (f"[matrix products](benches/record/products-{AMD}", f"products-{AMD}", lambda row: row["dtype"] != "float16"),
    ("[models](docs/models.md)", f"models-{AMD}", lambda row: row["kind"] == "train"),
    ("models, training by [a graph]", f"models-{AMD}", lambda row: row["kind"] == "graph"),
    ("models, inference", f"models-{AMD}", lambda row: row["kind"] == "infer"),
    (f"[matrix products](benches/record/products-{INTEL}", f"products-{INTEL}", every),
    (f"[models](benches/record/models-{INTEL}", f"models-{INTEL}", lambda row: row["kind"] == "train"),
    ("models on Intel, inference", f"models-{INTEL}", lambda row: row["kind"] == "infer"),
]


@pytest.mark.parametrize(("begin", "table", "is_meant"), FIGURES, ids=[begin for begin, _, _ in FIGURES])
def test_a_figure_of_the_readme_is_that_of_its_table(begin: str, table: str, is_meant: Callable[[dict[str, str]], bool]) -> None:
    with (ROOT / f"benches/record/{table}.csv").open(newline="") as file:
        factors = [float(row["factor"]) for row in csv.DictReader(file) if is_meant(row)]
    mean = math.exp(sum(map(math.log, factors)) / len(factors))
    (row,) = re.findall(rf"^\| {re.escape(begin)}.*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert f"| {len(factors)} | {mean:.2f} | {min(factors):.2f} | {max(factors):.2f} |" in row
