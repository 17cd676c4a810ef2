"""The seeded faults of tools/mutants: each applies to the tree, and names tests that should find it."""

import ast
from pathlib import Path
from typing import Any

import pytest
from mutants.table import Mutant, apply_all, load

ROOT = Path(__file__).parents[2]
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


def test_a_choice_has_the_form_of_its_language() -> None:
    def applied(file: str, text: str, old: str, new: str, statement: bool = False) -> str:
        return Mutant(7, "family", "fault", file, old, new, "tests/test_digits.py", statement).apply(text)

    assert applied("a.rs", "f(a + b)", "a + b", "a") == "f((if crate::mutant::is(7) { a } else { a + b }))"
    assert applied("a.rs", "g();", "g();", "", True) == "if crate::mutant::is(7) {  } else { g(); }"
    assert applied("a.rs", "f(a, b)", "b)", "b + MUTANT as u8)") == "f(a, b + crate::mutant::is(7) as u8)"
    program = applied("a.py", "if True:\n    found = 1\n", "found = 1", "found = 2", True)
    scope: dict[str, Any] = {}
    exec(program, scope)
    assert scope["found"] == 1
    assert eval(applied("a.py", "1 + 2", "2", "3")) == 3
