"""docs/benchmarks.md is what its writer makes of the tables in benches/record/."""

from __future__ import annotations

from pathlib import Path

import pytest
import record
import report

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/benchmarks.md"
TABLES = sorted((ROOT / "benches/record").glob("operators-*.csv"))


def test_the_page_is_that_of_a_table() -> None:
    assert PAGE.read_text() in [report.page(table, PAGE) for table in TABLES]


def test_the_page_is_short() -> None:
    assert len(PAGE.read_text().splitlines()) <= 200


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
