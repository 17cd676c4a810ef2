"""The test filters in the commands of docs/adding-an-op.md match tests: a filter without a match would run none unnoticed."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / "docs/adding-an-op.md").read_text(), re.DOTALL | re.MULTILINE)
LINES = [line for language, block in BLOCKS if language == "sh" for line in block.splitlines()]
COMMANDS = [command.strip() for line in LINES for command in line.split("&&")]
ROWS = re.findall(r'c"([^"]+)"', (ROOT / "src/ops/table.rs").read_text())


def collected(*arguments: str) -> list[str]:
    """Return the tests that pytest selects."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *arguments]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode in (0, 5), run.stdout + run.stderr
    return [line for line in run.stdout.splitlines() if "::" in line]


def rust_tests() -> list[str]:
    """Return the paths of the crate's own tests, as cargo's filter sees them."""
    tests = []
    for file in (ROOT / "src").rglob("*.rs"):
        module = [*file.relative_to(ROOT / "src").with_suffix("").parts]
        path = "::".join(part for part in module if part not in ("mod", "lib"))
        tests += [f"{path}::tests::{name}" for name in re.findall(r"#\[test\]\n(?:\s*#\[.*\]\n)*\s*fn (\w+)", file.read_text())]
    return tests


@pytest.mark.parametrize("command", [it for it in COMMANDS if it.startswith("cargo test")])
def test_the_rust_command_selects_tests(command: str) -> None:
    name = shlex.split(command)[-1]
    assert any(name in test for test in rust_tests())


@pytest.mark.slow
@pytest.mark.parametrize("command", [it for it in COMMANDS if it.startswith("pytest")])
def test_the_python_command_selects_tests(command: str) -> None:
    assert collected(*shlex.split(command)[1:])


def test_the_document_has_a_command_of_each_kind() -> None:
    assert {"cargo", "pytest"} <= {command.split()[0] for command in COMMANDS}


@pytest.mark.slow
def test_each_row_is_a_test_by_its_name() -> None:
    assert len(ROWS) > 300
    assert set(ROWS) <= set(torch.rustdev.op_calls())
    tests = collected("tests/ops/test_table.py")
    assert [row for row in ROWS if not any(f"[{row}]" in test for test in tests)] == []
