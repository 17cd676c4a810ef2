"""Runs of a program in child processes: for the largest value that fits, and for what other switches change.

``python -m rustdev._preflight.trials FILE (script.py | -m module) [arguments]`` is such a child. It writes its report to a file.
"""

import argparse
import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rustdev._program import _add_program, _run_program

from .._name import NAME
from .report import make_report
from .watch import Watch


class Range(NamedTuple):
    """Values of an argument of the program."""

    name: str
    low: int
    high: int


class Trial(NamedTuple):
    """A run of the program: its report and its exit code."""

    report: dict[str, Any]
    code: int


class Command(NamedTuple):
    """A program as arguments of Python: the options that name it, and its own arguments."""

    program: tuple[str, ...]
    arguments: tuple[str, ...]

    def with_switches(self, switches: Sequence[str]) -> "Command":
        """Return the command with more arguments."""
        return Command(self.program, (*self.arguments, *switches))

    def with_value(self, name: str, value: int) -> "Command":
        """Return the command with the value in place of ``{name}`` in its arguments, or else as ``--name value`` behind them."""
        word = f"{{{name}}}"
        if any(word in argument for argument in self.arguments):
            return Command(self.program, tuple(argument.replace(word, str(value)) for argument in self.arguments))
        return self.with_switches((f"--{name}", str(value)))


def watched(options: argparse.Namespace, finish: Callable[[dict[str, Any]], None]) -> None:
    """Run a program under a watch.

    Args:
        options: Parsed arguments; see ``_add_program``.
        finish: Called with the report when the program has ended.

    Raises:
        SystemExit: If the program raises it, or raises another exception, whose traceback is printed.
    """
    watch = Watch()

    def begin() -> None:
        atexit.register(lambda: finish(make_report(watch)))
        watch.begin()

    _run_program(options, begin)


def run(command: Command, *, shows_output: bool) -> Trial:
    """Run a program in a child process.

    Args:
        command: The program.
        shows_output: Whether its output goes where that of this process goes.

    Raises:
        SystemExit: With the exit code of a program that fails for another reason than memory; its errors are printed.
    """
    with tempfile.TemporaryDirectory(prefix="preflight-") as directory:
        file = os.path.join(directory, "report.json")
        words = [sys.executable, "-m", "rustdev._preflight.trials", file, *command.program, *command.arguments]
        ended = subprocess.run(words, capture_output=not shows_output, text=True, errors="replace", check=False)
        report = None
        if os.path.exists(file):
            with open(file, encoding="utf-8") as opened:
                report = json.load(opened)
    if report is None or (ended.returncode and report["fits"]):
        print(f"{NAME} preflight: a trial has failed: {' '.join(command.arguments)}\n{ended.stderr or ''}", file=sys.stderr)
        raise SystemExit(ended.returncode if ended.returncode > 0 else 1)
    return Trial(report, ended.returncode)


def _highest(report: dict[str, Any]) -> dict[str, Any]:
    """Return peaks and parts of the device with the highest peak, and the time of the last step."""
    devices = sorted(report["devices"], key=lambda device: device["peak_reserved"])
    if not devices:
        raise SystemExit(f"{NAME} preflight: the program has not used the device")
    device = devices[-1]
    return {
        "fits": report["fits"],
        "allocated": device["peak_allocated"],
        "reserved": device["peak_reserved"],
        "parts": device["peak"]["parts"],
        "step_seconds": report["steps"][-1]["seconds"] if report["fits"] and report["steps"] else None,
    }


def _told(what: str, found: dict[str, Any]) -> None:
    print(f"{NAME} preflight: {what}: {'fits' if found['fits'] else 'out of memory'}", file=sys.stderr, flush=True)


def largest(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return the largest number from low to high that fits, by bisection; None if low does not fit."""
    if not fits(low):
        return None
    if high == low or fits(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def fit(command: Command, wanted: Range) -> tuple[Command, Trial]:
    """Find the largest value with which a program fits.

    Args:
        command: The program.
        wanted: The argument, with the lowest and the highest value.

    Returns:
        The program with that value, or with the lowest one if none fits, and its trial. The report has all trials.
    """
    trials: dict[int, Trial] = {}
    rows: list[dict[str, Any]] = []

    def fits(value: int) -> bool:
        trials[value] = run(command.with_value(wanted.name, value), shows_output=False)
        rows.append({"value": value, **_highest(trials[value].report)})
        _told(f"{wanted.name} {value}", rows[-1])
        return bool(rows[-1]["fits"])

    found = largest(fits, wanted.low, wanted.high)
    value = wanted.low if found is None else found
    trials[value].report["fit"] = {**wanted._asdict(), "largest": found, "trials": rows}
    return command.with_value(wanted.name, value), trials[value]


def compare(command: Command, base: Trial, switches: Sequence[Sequence[str]]) -> None:
    """Run a program with other switches, and add the comparison to the report.

    Args:
        command: The program.
        base: Its run without them.
        switches: Arguments that are added, for each run.
    """
    runs = [{"switches": "", **_highest(base.report)}]
    for words in switches:
        runs.append({"switches": " ".join(words), **_highest(run(command.with_switches(words), shows_output=False).report)})
        _told(str(runs[-1]["switches"]), runs[-1])
    base.report["comparison"] = runs


def main(arguments: Sequence[str]) -> None:
    """Run a program and write its report to a file.

    Args:
        arguments: Command-line arguments.
    """
    parser = argparse.ArgumentParser("python -m rustdev._preflight.trials")
    parser.add_argument("file")
    _add_program(parser)
    options = parser.parse_args(arguments)
    file = os.path.abspath(options.file)

    def finish(report: dict[str, Any]) -> None:
        with open(file, "w", encoding="utf-8") as opened:
            json.dump(report, opened)

    watched(options, finish)


if __name__ == "__main__":
    main(sys.argv[1:])
