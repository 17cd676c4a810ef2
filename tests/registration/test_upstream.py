"""The runner of PyTorch's device-generic tests, on files in the same style."""

import json
import os
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import children
import pytest

TOOLS = Path(__file__).parents[2] / "tools"

FRAMEWORK = """
from torch.testing._internal.common_device_type import *
from torch.testing._internal.common_utils import TestCase
"""
ONE = f"""{FRAMEWORK}
class TestOne(TestCase):
    def test_one(self, device):
        pass

instantiate_device_type_tests(TestOne, globals())
"""
OUTCOMES = f"""{FRAMEWORK}
import os
import torch

class TestOutcomes(TestCase):
    def test_a_passes(self, device):
        self.assertEqual(device, "rustdev:0")

    def test_b_fails(self, device):
        self.assertEqual(1, 2)

    def test_c_kills_its_process(self, device):
        os.abort()

    def test_d_runs_behind_it(self, device):
        pass

    @deviceCountAtLeast(2)
    def test_e_two_devices(self, devices):
        self.assertEqual(torch.ones(2, device=devices[1]).to(devices[0]).device, torch.device("rustdev:0"))

    @onlyCPU
    def test_f_is_skipped(self, device):
        pass

    @onlyNativeDeviceTypes
    @dtypes(torch.float64)
    @dtypesIfPRIVATEUSE1(torch.float32)
    def test_g_dtypes(self, device, dtype):
        pass

instantiate_device_type_tests(TestOutcomes, globals())
"""
BROKEN = "from no_such_module import instantiate_device_type_tests\ninstantiate_device_type_tests()\n"


def upstream(*arguments: Any) -> CompletedProcess[str]:
    """Run the command."""
    return children.python("-m", "upstream", *map(str, arguments), path=TOOLS, nested=True)


def outcomes(directory: Path) -> dict[str, str]:
    """Return the outcome of each test, by its name without file and class."""
    results = json.loads((directory / "results.json").read_text())
    return {test.rpartition("::")[2]: line["outcome"] for test, line in results.items()}


@pytest.mark.slow
def test_every_outcome_is_told(tmp_path: Path) -> None:
    tests = tmp_path / "checkout" / "test"
    tests.mkdir(parents=True)
    (tests / "test_outcomes.py").write_text(OUTCOMES)
    (tests / "test_broken.py").write_text(BROKEN)
    (tests / "autograd").mkdir()
    (tests / "autograd/test_one.py").write_text(ONE)
    (tests / "test_other.py").write_text("raise SystemExit('not generic, not run')\n")
    output = tmp_path / "output"
    run = upstream(tests.parent, "--shards", 2, "--jobs", 2, "--output", output)
    assert run.returncode == 1
    assert outcomes(output) == {
        "test_one_rustdev": "passed",
        "test_a_passes_rustdev": "passed",
        "test_b_fails_rustdev": "failed",
        "test_c_kills_its_process_rustdev": "crashed",
        "test_d_runs_behind_it_rustdev": "passed",
        "test_e_two_devices_rustdev": "passed",
        "test_f_is_skipped_rustdev": "skipped",
        "test_g_dtypes_rustdev_float32": "passed",
        "test_broken.py": "crashed",
    }
    assert "| autograd/test_one.py | 1 | 0 | 0 | 0 | 0 |" in run.stdout
    assert "| test_outcomes.py | 4 | 1 | 1 | 1 | 0 |" in run.stdout
    assert "| **all** | 5 | 1 | 2 | 1 | 0 |" in run.stdout
    assert "test_b_fails_rustdev` failed: AssertionError: Scalars are not equal!" in run.stdout
    assert "test_c_kills_its_process_rustdev` crashed: signal 6" in run.stdout
    assert (output / "summary.md").read_text() == run.stdout


@pytest.mark.slow
def test_a_run_goes_on_with_results_of_the_same_build(tmp_path: Path) -> None:
    """The file of before the build runs anew; the other one runs what was not finished."""
    output, build = tmp_path / "output", tmp_path / "build"
    output.mkdir()
    build.touch()
    for name, age in (("test_newer", 1), ("test_older", -1)):
        (tmp_path / f"{name}.py").write_text(OUTCOMES)
        found = (("test_b_fails", "passed"), ("test_d_runs_behind_it", "started"))
        lines = [{"test": f"{name}.py::TestOutcomesRUSTDEV::{test}_rustdev", "outcome": outcome} for test, outcome in found]
        results = output / f"{name}-0.jsonl"
        results.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.utime(results, (build.stat().st_mtime + age,) * 2)
    run = upstream(tmp_path, "-k", "test_b or test_d", "--output", output, "--resume", build)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "| test_newer.py | 2 | 0 | 0 | 0 | 0 |\n| test_older.py | 1 | 1 | 0 | 0 | 0 |" in run.stdout
    assert "1 passed" in (output / "test_newer-0.log").read_text(), "the test that was not finished"


def test_a_directory_without_such_tests(tmp_path: Path) -> None:
    assert "no device-generic test files" in upstream(tmp_path).stderr
