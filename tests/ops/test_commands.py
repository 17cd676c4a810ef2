"""The test filters in the commands of docs/adding-an-op.md match tests: a filter without a match would run none unnoticed."""

import re
import shlex
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "docs/adding-an-op.md").read_text(), re.DOTALL | re.MULTILINE)
COMMANDS = [shlex.split(command) for block in BLOCKS for line in block.splitlines() for command in line.split("&&")]


def rust_tests() -> list[str]:
    """Return the paths of the crate's own tests, as cargo's filter sees them."""
    tests = []
    for file in (ROOT / "src").rglob("*.rs"):
        module = [*file.relative_to(ROOT / "src").with_suffix("").parts]
        path = "::".join(part for part in module if part not in ("mod", "lib"))
        tests += [f"{path}::tests::{name}" for name in re.findall(r"#\[test\]\n(?:\s*#\[.*\]\n)*\s*fn (\w+)", file.read_text())]
    return tests


def test_the_commands_select_tests() -> None:
    """Each row of the operator table is a test of ``test_table.py`` by its name: that goes through all of ``op_calls``."""
    rows = set(torch.rustdev.op_calls())
    assert len(rows) > 300
    cargo, pytest = ([command for command in COMMANDS if command[0] == tool] for tool in ("cargo", "pytest"))
    assert [command[-1] for command in cargo if not any(command[-1] in test for test in rust_tests())] == []
    assert [command[1:3] for command in pytest] == [["tests/ops", "-k"]]
    assert {command[-1] for command in pytest} <= rows
    assert cargo
