"""A short run of ``make soak`` in each of its modes, and that it detects faults."""

import re
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from types import ModuleType

import children
import pytest
import torch

TOOLS = Path(__file__).parents[2] / "tools"
#: A limit that no test comes to: they count programs.
LONG = ("--seconds", "3600")


def run_soak(*arguments: str) -> CompletedProcess[str]:
    """Run the command."""
    return children.python("-m", "soak", "--minutes", "600", *arguments, path=TOOLS, nested=True)


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the command's module, of this process."""
    monkeypatch.syspath_prepend(TOOLS)
    monkeypatch.setattr("sys.executable", children.executable())
    from soak import __main__ as command

    return command


@pytest.fixture
def worker(soak: ModuleType) -> Iterator[ModuleType]:
    """Return the worker's module, of this process; what it changes is restored."""
    from soak import worker

    before = torch.rustdev.fallback_mode()
    yield worker
    torch.rustdev.set_fallback_mode(before)
    torch.rustdev.clear_sanitizer_reports()


def report(path: Path) -> object:
    """Return what a worker has written."""
    from soak.report import Report

    return Report.load(path, "")


def test_each_mode_runs_programs_without_a_finding(soak: ModuleType) -> None:
    modes = [mode for mode in soak.MODES if mode != "ranks"]  # whose test is another
    run = run_soak("--programs", "2", "--seed", "0", "--modes", ",".join(modes))
    assert run.returncode == 0, run.stdout + run.stderr
    for mode in modes:
        assert f"| {mode} | 2 | 0 | 0 | " in run.stdout, run.stdout
    assert re.search(r"faults \| 2 \| 0 \| 0 \| [1-9]", run.stdout), "no shortage was injected"
    last = run.stdout.splitlines()[-1]
    count = len(modes)
    assert last.startswith(f"soak: {2 * count} programs in {count} modes, 0 differences, 0 findings, nothing grew")


def test_groups_of_processes_run_programs_without_a_finding() -> None:
    # The six have each an end of another kind.
    run = run_soak("--programs", "6", "--seed", "111", "--modes", "ranks")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "soak: 6 programs in 1 modes, 0 differences, 0 findings, nothing grew" in run.stdout


def plant(monkeypatch: pytest.MonkeyPatch, name: str, call: object) -> None:
    """Put another function in an operator's place, on the devices alone."""
    from soak.operators import OPERATORS

    real = OPERATORS[name].call

    def planted(given: list[torch.Tensor], choice: int) -> torch.Tensor:
        return call(given) if given[0].device.type == "rustdev" else real(given, choice)

    monkeypatch.setitem(OPERATORS, name, type(OPERATORS[name])(planted, *list(vars(OPERATORS[name]).values())[1:]))


def test_a_wrong_value_is_told_with_the_seed_and_few_steps(
    worker: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plant(monkeypatch, "neg", lambda given: given[0].clone())
    assert worker.main(["plain", str(tmp_path / "report"), *LONG, "--seed", "3"]) == 1
    told = capsys.readouterr().out
    assert re.search(r"a difference with --modes plain --seed 3 --first \d+", told)
    steps = [line for line in told.splitlines() if re.match(r"  %\d+ = ", line)]
    assert 2 <= len(steps) <= 20
    assert any("neg(" in step for step in steps)
    found = report(tmp_path / "report")
    assert (found.differences, found.findings) == (1, 0)


#: What a worker does in place of its second program.
ENDS = {
    "plain": "os.abort()",
    "memory": "ctypes.string_at(torch.ones(4, device='rustdev').data_ptr(), 4)",
}
PLANTED = """
import ctypes, os, sys, torch
from soak import worker

class Ends(worker.Maker):
    def __init__(self, seed):
        super().__init__(seed)
        if seed == "7:1":
            {how}

worker.Maker = Ends
sys.exit(worker.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("mode", ENDS)
def test_a_process_that_ends_is_a_finding(
    soak: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], mode: str
) -> None:
    command = soak.command

    def planted(*arguments: object) -> list[str]:
        python, _, _, *rest = command(*arguments)
        return [python, "-c", PLANTED.format(how=ENDS[mode]), *rest]

    monkeypatch.setattr(soak, "command", planted)
    assert soak.main(["--modes", mode, "--programs", "4", "--seed", "7", "--minutes", "60"]) == 1
    told = capfd.readouterr()
    assert re.search(rf"ended by SIG\w+ in program 1: --modes {mode} --seed 7 --first 1", told.out)
    assert "1 findings" in told.out.splitlines()[-1]
    if mode == "memory":
        assert "rustdev: the host touched memory" in told.err, "the mode's variables were not set"
