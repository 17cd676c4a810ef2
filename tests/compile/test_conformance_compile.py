"""A part of ``make conformance-compile``: one sample of some operators in float32, forward and backward, against the CPU."""

import json
import os
from pathlib import Path

import children
import pytest

ROOT = Path(__file__).parents[2]
#: A loop with a reduction, a scan, indices, and a product: enough to see that the suite runs and compares.
OPERATORS = ("addmm", "cumsum", "index_add", "std")
#: Runs the suite with these operators alone, and prints the names of its tests.
PROGRAM = """
import json, sys, unittest
from rustdev_conformance import database
database.op_db[:] = [op for op in database.op_db if op.formatted_name in sys.argv[1:]]
import test_operators
found = unittest.defaultTestLoader.loadTestsFromModule(test_operators)
tests = [test for group in found for test in group if "float32" in test.id()]
result = unittest.TextTestRunner().run(unittest.TestSuite(tests))
print(json.dumps([test.id().rpartition(".")[2] for test in tests]))
sys.exit(not result.wasSuccessful() or bool(result.skipped))
"""


@pytest.mark.slow
def test_a_selection_of_operators() -> None:
    folders = ("tests/compile/conformance", "tests/ops/conformance", "tests/ops", "tools")
    path = os.pathsep.join([*(str(ROOT / folder) for folder in folders), os.environ.get("PYTHONPATH", "")])
    devices = str(ROOT / "tools/upstream/device.py")
    run = children.run(PROGRAM, *OPERATORS, timeout=300, PYTHONPATH=path, TORCH_TEST_DEVICES=devices)
    assert run.returncode == 0, run.stdout + run.stderr
    kinds = ("forward", "backward")
    expected = [f"test_compiled_{kind}_{name}_rustdev_float32" for kind in kinds for name in OPERATORS]
    assert sorted(json.loads(run.stdout.splitlines()[-1])) == sorted(expected)
