"""A short run of ``make soak``, and that it finds what it looks for."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

ROOT = Path(__file__).parents[2]


def run_soak(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tools"), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "soak", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)


def test_ten_seconds_of_random_programs() -> None:
    run = run_soak("--minutes", "0.17", "--seed", "0")
    assert run.returncode == 0, run.stdout + run.stderr
    found = re.search(r"(\d+) programs without a difference in \d+ s with --seed 0", run.stdout)
    assert found
    assert int(found[1]) > 1


@pytest.mark.parametrize("arguments", [("--minutes", "0"), ("--minutes", "nan"), ("--first", "-1"), ("--seed", "x")])
def test_bad_arguments_are_refused(arguments: tuple[str, str]) -> None:
    run = run_soak(*arguments)
    assert run.returncode == 2
    assert arguments[0] in run.stderr


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the command's module, of this process."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    from soak import __main__ as command

    return command


def plant(monkeypatch: pytest.MonkeyPatch, name: str, call: object) -> None:
    """Put another function in an operator's place, on the devices alone."""
    from soak.operators import OPERATORS

    real = OPERATORS[name].call

    def planted(given: list[torch.Tensor], choice: int) -> torch.Tensor:
        return call(given) if given[0].device.type == "rustdev" else real(given, choice)

    monkeypatch.setitem(OPERATORS, name, type(OPERATORS[name])(planted, *list(vars(OPERATORS[name]).values())[1:]))


def test_a_wrong_value_is_told_with_the_seed_and_few_steps(
    soak: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, "neg", lambda given: given[0].clone())
    assert soak.main(["--minutes", "1", "--seed", "3"]) == 1
    told = capsys.readouterr().out
    assert re.search(r"a difference with --seed 3 --first \d+", told)
    steps = [line for line in told.splitlines() if re.match(r"  %\d+ = ", line)]
    assert 2 <= len(steps) <= 20
    assert any("neg(" in step for step in steps)


def test_a_missing_wait_is_found(soak: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("soak.machines.Devices.wait", lambda self, step, used: None)
    assert soak.main(["--minutes", "1", "--seed", "4"]) == 1
    assert "--seed 4" in capsys.readouterr().out


def test_the_same_seed_gives_the_same_programs(soak: ModuleType) -> None:
    from soak.program import Maker

    first, again, other = ([str(step) for step in Maker(seed).steps()] for seed in ("1:0", "1:0", "2:0"))
    assert first == again
    assert first != other
