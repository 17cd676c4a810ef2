"""The seeded faults of tools/mutants: each applies to the tree, and names tests that should find it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from mutants.table import Mutant, apply_all, load  # noqa: E402

TABLE = load()


@pytest.mark.parametrize("mutant", TABLE, ids=lambda mutant: f"{mutant.number}-{mutant.family}")
def test_a_fault_fits_the_tree(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text()
    changed = mutant.apply(text)
    assert changed != text
    assert f"{mutant.number}" in changed
    files = [argument for argument in mutant.arguments if argument.startswith("tests/")]
    assert files
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_faults_of_one_file_go_together() -> None:
    for name in {mutant.file for mutant in TABLE}:
        text = apply_all(TABLE, name, (ROOT / name).read_text())
        if name.endswith(".py"):
            ast.parse(text)
