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
from torch.testing._internal.common_methods_invocations import op_db

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

    @ops([op for op in op_db if op.name == "mm"], allowed_dtypes=(torch.float32,))
    def test_h_samples(self, device, dtype, op):
        self.assertTrue(all(sample.input.device == torch.device(device) for sample in op.sample_inputs(device, dtype)))

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
        "test_h_samples_mm_rustdev_float32": "passed",
        "test_broken.py": "crashed",
    }
    assert "| autograd/test_one.py | 1 | 0 | 0 | 0 | 0 |" in run.stdout
    assert "| test_outcomes.py | 5 | 1 | 1 | 1 | 0 |" in run.stdout
    assert "| **all** | 6 | 1 | 2 | 1 | 0 |" in run.stdout
    assert "test_b_fails_rustdev` failed: AssertionError: Scalars are not equal!" in run.stdout
    assert "test_c_kills_its_process_rustdev` crashed: signal 6" in run.stdout
    assert (output / "summary.md").read_text() == run.stdout


@pytest.mark.slow
@pytest.mark.parametrize("is_newer", [True, False])
def test_a_run_goes_on_with_results_of_the_same_build(tmp_path: Path, is_newer: bool) -> None:
    (tmp_path / "test_outcomes.py").write_text(OUTCOMES)
    names = [f"test_outcomes.py::TestOutcomesRUSTDEV::{name}_rustdev" for name in ("test_b_fails", "test_d_runs_behind_it")]
    lines = [{"test": names[0], "outcome": "passed"}, {"test": names[1], "outcome": "started"}]
    output, build = tmp_path / "output", tmp_path / "build"
    output.mkdir()
    build.touch()
    results = output / "test_outcomes-0.jsonl"
    results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    moment = build.stat().st_mtime + (1 if is_newer else -1)
    os.utime(results, (moment, moment))
    run = upstream(tmp_path, "-k", "test_b or test_d", "--output", output, "--resume", build)
    assert run.returncode == (0 if is_newer else 1), run.stdout + run.stderr
    first = "passed" if is_newer else "failed"
    assert outcomes(output) == {"test_b_fails_rustdev": first, "test_d_runs_behind_it_rustdev": "passed"}
    said = "1 passed" if is_newer else "1 failed, 1 passed"
    assert said in (output / "test_outcomes-0.log").read_text(), "the tests that were not finished"


def test_a_directory_without_such_tests(tmp_path: Path) -> None:
    assert "no device-generic test files" in upstream(tmp_path).stderr
