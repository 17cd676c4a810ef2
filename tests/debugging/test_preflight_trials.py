"""python -m rustdev.preflight --fit and --compare: runs of a program in child processes."""

import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from children import python
from rustdev._preflight.trials import Command, largest
from rustdev.preflight import main

PROGRAM = """
import argparse, sys, torch
parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=1)
parser.add_argument("--half", action="store_true")
parser.add_argument("--wrong", action="store_true")
options, more = parser.parse_known_args()
rows = int(more[0].removeprefix("rows=")) if more else options.rows
if options.wrong:
    raise ValueError("the program is wrong")
with torch.device("rustdev"):
    network = torch.nn.Linear(1024, 1024, bias=False, dtype=torch.float16 if options.half else torch.float32)
    network(torch.ones(rows << 20, 1024, dtype=network.weight.dtype)).sum().backward()
print("rows", rows)
"""
GIB = 1 << 30


def preflight(tmp_path: Path, *arguments: str) -> tuple[CompletedProcess[str], dict[str, Any]]:
    """Run the program under preflight in 16 GiB; return how it ended, and the report if there is one."""
    (tmp_path / "program.py").write_text(PROGRAM)
    options = ["--profile", "t4-16g", "--json", "report.json"]
    result = python("-m", "rustdev.preflight", *options, *arguments, directory=tmp_path, nested=True)
    file = tmp_path / "report.json"
    return result, json.loads(file.read_text()) if file.exists() else {}


@pytest.mark.parametrize("answer", range(9))
def test_bisection_finds_the_largest_number_that_fits(answer: int) -> None:
    tried: list[int] = []

    def fits(value: int) -> bool:
        tried.append(value)
        return value <= answer

    assert largest(fits, 1, 7) == (min(answer, 7) or None)
    assert len(tried) == len(set(tried)) <= 5


def test_a_value_takes_its_place() -> None:
    command = Command(("train.py",), ("--steps", "2"))
    assert command.with_value("batch", 3).arguments == ("--steps", "2", "--batch", "3")
    hydra = Command(("train.py",), ("data.batch={batch}", "steps=2"))
    assert hydra.with_value("batch", 3).arguments == ("data.batch=3", "steps=2")


@pytest.mark.slow
def test_the_largest_value_that_fits(tmp_path: Path) -> None:
    # The input and the result take 4 GiB a row each; the third row has no room.
    result, report = preflight(tmp_path, "--fit", "rows=1:5", "program.py", "rows={rows}")
    assert result.returncode == 0, result.stderr
    fit = report["fit"]
    assert fit["largest"] == 1
    assert [(trial["value"], trial["fits"]) for trial in fit["trials"]] == [(1, True), (5, False), (3, False), (2, False)]
    assert "the largest rows from 1 to 5 that fits: 1" in result.stderr
    assert report["fits"]
    assert report["devices"][0]["peak_allocated"] == fit["trials"][0]["allocated"] > 8 * GIB


@pytest.mark.slow
def test_no_value_fits(tmp_path: Path) -> None:
    result, report = preflight(tmp_path, "--fit", "rows=3:9", "program.py")
    assert result.returncode == 1
    assert report["fit"]["largest"] is None
    assert "no rows from 3 to 9 fits" in result.stderr
    assert not report["fits"]


@pytest.mark.slow
def test_what_other_switches_change(tmp_path: Path) -> None:
    result, report = preflight(tmp_path, "--compare=--half", "--compare=--rows 2", "program.py")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "rows 1\n"
    given, half, more = report["comparison"]
    assert (given["switches"], half["switches"], more["switches"]) == ("", "--half", "--rows 2")
    assert given["allocated"] == report["devices"][0]["peak_allocated"]
    assert half["parts"]["parameters"] * 2 == given["parts"]["parameters"]
    assert half["parts"]["activations"] * 2 == given["parts"]["activations"] == 4 * GIB
    assert (given["fits"], half["fits"], more["fits"]) == (True, True, False)
    assert "--rows 2" in result.stderr


@pytest.mark.slow
def test_a_program_that_fails_ends_the_trials(tmp_path: Path) -> None:
    result, report = preflight(tmp_path, "--fit", "rows=1:4", "program.py", "--wrong")
    assert result.returncode == 1
    assert "ValueError: the program is wrong" in result.stderr
    assert report == {}
    assert result.stderr.count("Traceback") == 1


@pytest.mark.parametrize("text", ["rows", "rows=1", "rows=4:1", "rows=a:b", "=1:2", "1rows=1:2"])
def test_a_wrong_range_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--fit", text, "program.py"])
    assert ended.value.code == 2
    assert "--fit" in capsys.readouterr().err


def test_wrong_switches_and_torchrun_are_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--compare='--half", "program.py"])
    assert ended.value.code == 2
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(SystemExit) as ended:
        main(["--compare=--half", "program.py"])
    assert ended.value.code == 2
    assert "torchrun" in capsys.readouterr().err
