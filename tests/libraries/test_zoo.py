"""A part of ``make zoo``: the comparison, and that it detects a difference."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def zoo(*arguments: str, prelude: str = "") -> subprocess.CompletedProcess[str]:
    """Run the tool behind some statements."""
    start = f"import sys; sys.argv = ['zoo', *{list(arguments)}]; import runpy, torch, rustdev"
    program = f"{start}\n{prelude}\nrunpy.run_module('zoo', run_name='__main__')"
    paths = os.pathsep.join(filter(None, (str(ROOT / "tools"), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": paths}
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)


def test_models_of_each_library_pass() -> None:
    run = zoo("mixtral", "wav2vec2", "resnet18")
    assert run.returncode == 0, run.stdout + run.stderr
    rows = [line.split(" | ") for line in run.stdout.splitlines() if line.startswith("| ")][1:]
    assert [row[0] for row in rows] == ["| mixtral", "| wav2vec2", "| resnet18"]
    assert [row[2].strip() for row in rows] == ["", "", ""]
    assert "3 models, 0 of them differ or fail" in run.stdout


def test_a_wrong_operator_is_seen() -> None:
    prelude = """
from torch.nn import functional
correct = functional.silu
functional.silu = lambda x, *rest, **named: correct(x, *rest, **named) * (1 + (x.device.type == "rustdev") / 8)
"""
    run = zoo("mixtral", prelude=prelude)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "last_hidden_state by" in run.stdout
