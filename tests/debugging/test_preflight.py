"""python -m rustdev.preflight: whether a program fits, its peak, and what the peak consists of."""

import json
import textwrap
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from children import python

PROGRAM = """
import sys
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1024, 1024, bias=False)

    def forward(self, x):
        return torch.relu(self.linear(x))

with torch.device("rustdev"):
    network = nn.Sequential(*(Layer() for _ in range(4)))
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
rows = int(sys.argv[1])
x = torch.ones(rows, 1024, device="rustdev")
for _ in range(2):
    optimizer.zero_grad(set_to_none=False)
    network(x).sum().backward()
    optimizer.step()
print("done", torch.rustdev.max_memory_allocated(), torch.rustdev.max_memory_reserved())
"""
MIB = 1 << 20
ROOT = Path(__file__).parents[2]


def preflight(tmp_path: Path, *arguments: str, profile: str = "t4-16g") -> tuple[CompletedProcess[str], dict[str, Any]]:
    """Run the program under preflight; return how it ended, and the report."""
    (tmp_path / "program.py").write_text(PROGRAM)
    options = ["--profile", profile, "--json", "report.json"]
    result = python("-m", "rustdev.preflight", *options, "program.py", *arguments, directory=tmp_path)
    return result, json.loads((tmp_path / "report.json").read_text())


def test_the_peak_and_its_parts(tmp_path: Path) -> None:
    result, report = preflight(tmp_path, "8192")
    assert result.returncode == 0, result.stderr
    assert "rustdev preflight: the program fits on t4-16g" in result.stderr
    (device,) = report["devices"]
    _, allocated, reserved = result.stdout.split()
    assert report["fits"]
    assert (device["peak_allocated"], device["peak_reserved"]) == (int(allocated), int(reserved))
    parts = device["peak"]["parts"]
    assert sum(parts.values()) == device["peak_allocated"]
    assert parts["parameters"] == parts["gradients"] == 16 * MIB
    assert parts["optimizer_states"] == 32 * MIB
    # The results of layers are saved, the last one only until its own backward; the input is the program's.
    assert parts["activations"] >= 3 * 32 * MIB
    assert parts["temporaries"] >= 32 * MIB
    assert device["total"] == 16 << 30
    assert device["shortages"] == []


def test_what_does_not_fit(tmp_path: Path) -> None:
    result, report = preflight(tmp_path, str(1 << 20))
    assert result.returncode == 1
    assert "OutOfMemoryError" in result.stderr
    assert "DOES NOT FIT" in result.stderr
    assert not report["fits"]
    (shortage,) = report["devices"][0]["shortages"]
    assert shortage["requested"] == 4 << 30
    assert shortage["phase"] == "forward"
    assert shortage["module"] == "Sequential.1"
    assert (shortage["line"]["file"], shortage["line"]["line"]) == ("program.py", 12)
    # The result of the first layer, and what the second one has before its last step, which does not keep it.
    parts = report["devices"][0]["peak"]["parts"]
    assert (parts["activations"], parts["temporaries"], parts["parameters"]) == (4 << 30, 8 << 30, 16 * MIB)


def test_an_optimizer_that_does_not_fit(tmp_path: Path) -> None:
    program = """
        import torch
        with torch.device("rustdev"):
            network = torch.nn.Sequential(*(torch.nn.Linear(1 << 14, 1 << 14, bias=False) for _ in range(5)))
        optimizer = torch.optim.AdamW(network.parameters(), fused=True)
        network(torch.ones(1, 1 << 14, device="rustdev")).sum().backward()
        optimizer.step()
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    options = ["--profile", "t4-16g", "--json", "report.json"]
    result = python("-m", "rustdev.preflight", *options, "program.py", directory=tmp_path)
    assert "OutOfMemoryError" in result.stderr
    (device,) = json.loads((tmp_path / "report.json").read_text())["devices"]
    assert device["shortages"][0]["phase"] == "optimizer"
    parts = device["peak"]["parts"]
    # The budget of 16 GiB holds five weights and gradients of 1 GiB each, and five moments with their counts of steps.
    assert (parts["parameters"], parts["gradients"]) == (5 << 30, 5 << 30)
    assert 5 << 30 <= parts["optimizer_states"] < 6 << 30
    assert parts["temporaries"] < MIB


def test_seven_billion_parameters(tmp_path: Path) -> None:
    def report_of(*arguments: str) -> dict[str, Any]:
        options = ["--profile", "a100-80g", "--json", "report.json"]
        python("-m", "rustdev.preflight", *options, ROOT / "examples/llama_training.py", *arguments, directory=tmp_path)
        found: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
        return found

    # The figures of the README.
    report = report_of("--batch", "4")
    assert report["devices"][0]["shortages"][0]["module"] == "Model.layers.25"
    assert round(report["devices"][0]["peak"]["parts"]["activations"] / 2**30, 1) == 40.4
    report = report_of("--batch", "8", "--checkpoint")
    assert report["fits"]
    assert round(report["devices"][0]["peak_allocated"] / 2**30, 1) == 54.7


def test_a_larger_profile_fits(tmp_path: Path) -> None:
    result, report = preflight(tmp_path, str(1 << 20), profile="a100-80g")
    assert result.returncode == 0, result.stderr
    assert report["fits"]
    assert report["devices"][0]["peak_allocated"] > 16 << 30


@pytest.mark.parametrize("program", ["x = 1", "import torch"])
def test_a_program_without_the_device(tmp_path: Path, program: str) -> None:
    (tmp_path / "program.py").write_text(program)
    result = python("-m", "rustdev.preflight", "program.py", directory=tmp_path)
    assert result.returncode == 0
    assert result.stderr.endswith("rustdev preflight: the program fits\n  it has not used the device\n")
