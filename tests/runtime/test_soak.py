"""A short run of ``make soak`` in each of its modes, and that it detects faults."""

import itertools
import os
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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


@pytest.mark.slow
def test_each_mode_runs_programs_without_a_finding(soak: ModuleType) -> None:
    modes = [mode for mode in soak.MODES if mode != "ranks"]  # whose test is another
    run = run_soak("--programs", "2", "--seed", "0", "--modes", *modes)
    assert run.returncode == 0, run.stdout + run.stderr
    for mode in modes:
        assert f"| {mode} | 2 | 0 | 0 | " in run.stdout, run.stdout
    assert re.search(r"faults \| 2 \| 0 \| 0 \| [1-9]", run.stdout), "no shortage was injected"
    last = run.stdout.splitlines()[-1]
    count = len(modes)
    assert last.startswith(f"soak: {2 * count} programs in {count} modes, 0 differences, 0 findings, nothing grew")


@pytest.mark.slow
def test_groups_of_processes_run_programs_without_a_finding() -> None:
    # The six have each an end of another kind.
    run = run_soak("--programs", "6", "--seed", "111", "--modes", "ranks")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "soak: 6 programs in 1 modes, 0 differences, 0 findings, nothing grew" in run.stdout


#: A rank with other numbers than the others, and one that hangs.
PLANTED_RANKS = """
import os, time
from soak import rank, ranks

ranks.WAITS, ranks.ENDS, ranks.CALLS = ("cpu",), ("destroy",), 2
ranks.COLLECTIVES = ("all_reduce", "broadcast")
assert ranks.fault("0:0") is None
data, make = rank.data, rank.Rank.make
rank.data = lambda call, which, elements: data(call, which, elements) + os.getpid()
print(ranks.fault("0:0"))
rank.data = data
rank.Rank.make = lambda self, call: make(self, call) if self.rank else time.sleep(999)
ranks.PATIENCE = 5
print(ranks.fault("0:0"))
"""


@pytest.mark.slow
def test_a_group_with_a_wrong_value_or_one_that_hangs_is_a_finding() -> None:
    run = children.python("-c", PLANTED_RANKS, path=TOOLS)
    assert run.returncode == 0, run.stderr
    wrong, hangs = run.stdout.split("end: destroy, behind all")[:2]
    assert "ended with exit code 1 in place of 0" in wrong
    assert "in place of [" in wrong
    assert "%0 = " in wrong
    assert "rank 0 hangs, after 5 s" in hangs
    assert "<lambda>" in hangs, "it does not say where"


def plant(monkeypatch: pytest.MonkeyPatch, name: str, call: object) -> None:
    """Put another function in an operator's place, on the devices alone."""
    from soak.operators import OPERATORS

    real = OPERATORS[name].call

    def planted(given: list[torch.Tensor], choice: int) -> torch.Tensor:
        return call(given) if given[0].device.type == "rustdev" else real(given, choice)

    monkeypatch.setitem(OPERATORS, name, type(OPERATORS[name])(planted, *list(vars(OPERATORS[name]).values())[1:]))


@pytest.mark.slow
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


@pytest.mark.planted_race
def test_a_missing_wait_gives_a_difference(
    worker: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("soak.machines.Devices.wait", lambda self, step, used: None)
    monkeypatch.setattr(worker, "SHRINKING", 0)
    assert worker.main(["plain", str(tmp_path / "report"), *LONG, "--seed", "4"]) == 1
    assert "--seed 4" in capsys.readouterr().out


@pytest.mark.planted_race
def test_a_missing_wait_is_found_by_the_race_detector(
    worker: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("soak.machines.Devices.wait", lambda self, step, used: None)
    assert worker.main(["race", str(tmp_path / "report"), *LONG, "--programs", "1", "--seed", "4"]) == 1
    assert "SynchronizationError" in capsys.readouterr().out
    found = report(tmp_path / "report")
    assert (found.differences, found.findings) == (0, 1)


def test_a_call_that_has_written_when_it_runs_out_of_memory_gives_a_difference(
    worker: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fails = itertools.cycle([True, False])

    def half_done(given: list[torch.Tensor]) -> torch.Tensor:
        given[0].add_(given[1])
        if next(fails):
            raise torch.OutOfMemoryError
        return given[0]

    plant(monkeypatch, "add_", half_done)
    monkeypatch.setattr(worker, "SHRINKING", 0)
    assert worker.main(["faults", str(tmp_path / "report"), *LONG, "--seed", "5"]) == 1
    found = report(tmp_path / "report")
    assert (found.differences, found.findings) == (1, 0)


@pytest.mark.slow
def test_what_a_process_holds_is_counted(worker: ModuleType) -> None:
    worker.sample()
    before, end = worker.sample(), threading.Event()
    tensor, block = torch.ones(1000, device="rustdev"), bytearray(b"x" * (32 << 20))
    with open(os.devnull), ThreadPoolExecutor(1) as pool:
        pool.submit(end.wait)
        after = worker.sample()
        end.set()
    if "ASAN_OPTIONS" not in os.environ:  # whose quarantine of freed memory grows as well
        assert 31 << 20 <= after["memory"] - before["memory"] <= 40 << 20
    assert {name: after[name] - before[name] for name in ("device", "threads", "descriptors")} == {
        "device": 4096, "threads": 1, "descriptors": 1,
    }  # fmt: skip
    assert len(block) + tensor.numel() > 0


@pytest.mark.slow
def test_what_leaks_is_told(worker: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kept: list[torch.Tensor] = []

    class Leaky(worker.Maker):
        def __init__(self, seed: str) -> None:
            super().__init__(seed)
            kept.append(torch.ones(1000, device="rustdev"))

    monkeypatch.setattr(worker, "Maker", Leaky)
    monkeypatch.setattr("soak.program.STEPS", 2)
    assert worker.main(["plain", str(tmp_path / "report"), *LONG, "--programs", "16", "--seed", "0"]) == 1
    found = report(tmp_path / "report")
    assert found.grown() == ["device"]
    assert "(!)" in found.text("device")


def test_the_rule_takes_noise_and_what_is_kept_once_for_no_leak() -> None:
    from soak.report import Report

    def grown(*threads: int) -> list[str]:
        samples = [{"memory": 1 << 30, "device": 0, "threads": count, "descriptors": 9} for count in threads]
        return Report("plain", samples=samples).grown()

    assert grown(4, 4, 4, 4, 4, 4, 4, 4, 4) == []
    assert grown(4, 4, 4, 4, 4, 4, 90, 4, 90) == []
    assert grown(4, 4, 4, 6, 6, 6, 6, 6, 6) == []
    assert grown(4, 4, 4, 7, 7, 7, 7, 7, 7) == ["threads"]
    assert grown(4, 5, 6, 7, 8, 9, 10, 11, 12) == ["threads"]
    assert grown(4, 5, 6, 7, 8) == [], "too few"


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


@pytest.mark.slow
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
    assert re.search(rf"ended with signal \d+ in program 1: --modes {mode} --seed 7 --first 1", told.out)
    assert "1 findings" in told.out.splitlines()[-1]
    if mode == "memory":
        assert "rustdev: the host touched memory" in told.err, "the mode's variables were not set"


def test_the_same_seed_gives_the_same_programs(soak: ModuleType) -> None:
    from soak import ranks
    from soak.program import Maker

    assert ranks.make("1:0") == ranks.make("1:0") != ranks.make("2:0")

    first, again, other = ([str(step) for step in Maker(seed).steps()] for seed in ("1:0", "1:0", "2:0"))
    assert first == again
    assert first != other
