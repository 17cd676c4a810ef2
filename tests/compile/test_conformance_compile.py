"""A part of ``make conformance-compile``: one sample of some operators in float32, forward and backward, against the CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: A loop with a reduction, a scan, indices, and a product: enough to see that the suite runs and compares.
OPERATORS = ("addmm", "cumsum", "index_add", "std")


@pytest.mark.slow
def test_a_selection_of_operators(tmp_path: Path) -> None:
    pattern = " or ".join(f"_{name}_rustdev" for name in OPERATORS)
    command = [sys.executable, "-m", "upstream", "tests/compile", "--jobs", "2", "--shards", "2", "--output", str(tmp_path)]
    paths = os.pathsep.join(str(ROOT / part) for part in ("tools", "tests/ops", "tests/ops/conformance"))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (paths, os.environ.get("PYTHONPATH"))))}
    run = subprocess.run(
        [*command, "-k", f"float32 and ({pattern})"], capture_output=True, text=True, env=environment, cwd=ROOT, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    passed = [test for test, line in results.items() if line["outcome"] == "passed"]
    for name in OPERATORS:
        assert any(f"_forward_{name}_rustdev" in test for test in passed), name
    assert sum("_backward_" in test for test in passed) >= len(OPERATORS)
