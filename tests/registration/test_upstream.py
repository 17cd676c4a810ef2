"""The runner of PyTorch's device-generic tests, on our own files in the same style."""

import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import children
import pytest

TOOLS = Path(__file__).parents[2] / "tools"
OWN = Path(__file__).with_name("device_generic")


def upstream(*arguments: Any) -> CompletedProcess[str]:
    """Run the command."""
    return children.python("-m", "upstream", *map(str, arguments), path=TOOLS, nested=True)


def outcomes(directory: Path) -> dict[str, str]:
    """Return the outcome of each test, by its name without file and class."""
    results = json.loads((directory / "results.json").read_text())
    return {test.rpartition("::")[2]: line["outcome"] for test, line in results.items()}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> tuple[CompletedProcess[str], dict[str, str]]:
    """Run our own files in two shards."""
    output = tmp_path_factory.mktemp("own")
    run = upstream(OWN, "--shards", 2, "--jobs", 2, "--output", output)
    return run, outcomes(output)


def test_files_of_our_own_pass_in_shards(own: tuple[CompletedProcess[str], dict[str, str]]) -> None:
    run, found = own
    assert run.returncode == 0, run.stdout + run.stderr
    skipped = {name for name, outcome in found.items() if outcome == "skipped"}
    assert skipped == {"test_of_cuda_rustdev", "test_of_the_cpu_rustdev", "test_skipped_rustdev"}
    assert set(found.values()) == {"passed", "skipped"}
    assert f"| test_generic_ops.py | {len(found) - 4 - 3} | 0 | 0 | 3 | 0 |" in run.stdout
    assert "| test_generic_autograd.py | 4 | 0 | 0 | 0 | 0 |" in run.stdout
    assert {
        "test_add_scalar_rustdev_bfloat16",
        "test_dtypes_of_this_device_rustdev_float32",
        "test_arange_size_7_rustdev",
        "test_samples_mm_rustdev_float32",
        "test_two_devices_rustdev",
        "test_is_native_rustdev",
        "test_gradcheck_rustdev_float64",
    } <= found.keys()
    assert all("_rustdev" in name for name in found)
