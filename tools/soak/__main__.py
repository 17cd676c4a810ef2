"""The command: ``PYTHONPATH=tools python -m soak``, or ``make soak``. It starts a worker for each mode, in sequence."""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import processes

from .modes import MODES, VARIABLES
from .report import Report, table

#: Seconds that a worker may exceed its time before it counts as stuck, for its last program and for shrinking one.
PATIENCE = 900


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="soak", description="Run random programs on two devices and compare them with the CPU.")
    parser.add_argument("--minutes", type=float, default=10, help="begin no further program after so long, of all modes together")
    parser.add_argument("--programs", type=int, help="begin no more programs than these in each mode")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES), help="some of the modes")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the same seed gives the same programs")
    parser.add_argument("--first", type=int, default=0, help="begin with this program of the seed's, in each mode")
    return parser.parse_args(arguments)


def command(mode: str, seconds: float, options: argparse.Namespace, path: Path) -> list[str]:
    """Return the command line of a mode's worker."""
    limits = ["--seconds", str(seconds), *(["--programs", str(options.programs)] if options.programs else [])]
    programs = ["--seed", str(options.seed), "--first", str(options.first)]
    return [sys.executable, "-m", "soak.worker", mode, str(path), *limits, *programs]


def run(mode: str, options: argparse.Namespace) -> Report:
    """Run the programs of a mode in a separate process, whose output is printed."""
    seconds = 60 * options.minutes * MODES[mode].share / sum(MODES[name].share for name in options.modes)
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    # So that `-m soak.worker` is found in any working directory.
    tools = [str(Path(__file__).parents[1]), environment.get("PYTHONPATH", "")]
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, tools)), **MODES[mode].environment(options.seed)}
    with tempfile.TemporaryDirectory() as directory:
        path, limit = Path(directory) / "report.json", seconds + PATIENCE
        # In this process's group, so that Ctrl-C ends it.
        end = processes.told(processes.run(command(mode, seconds, options, path), limit, own_group=False, env=environment), limit)
        report = Report.load(path, mode)
    if not report.is_over:
        report.findings += 1
        again = f"--modes {mode} --seed {options.seed} --first {report.program}"
        print(f"soak: the process ended with {end} in program {report.program}: {again}")
    return report


def growth(reports: list[Report]) -> str:
    """Return a text on resources that have grown, and on modes with too few samples."""
    growing = [f"{name} of {it.mode}" for it in reports for name in it.grown()]
    short = [it.mode for it in reports if not it.is_judged()]
    told = f"growing: {', '.join(growing)}" if growing else "nothing grew"
    return told + (f" (too few samples of {', '.join(short)})" if short else "")


def main(arguments: list[str] | None = None) -> int:
    """Run the modes. Return 1 if a value differs, there is a finding, or a process has grown."""
    options = parse(arguments)
    start = time.monotonic()
    reports = []
    for mode in options.modes:
        print(f"soak: {mode}, seed {options.seed}", flush=True)
        reports.append(run(mode, options))
    print(table(reports))
    differences, findings = (sum(getattr(it, name) for it in reports) for name in ("differences", "findings"))
    programs = sum(it.programs for it in reports)
    print(
        f"soak: {programs} programs in {len(reports)} modes, {differences} differences, {findings} findings, "
        f"{growth(reports)}, {time.monotonic() - start:.0f} s, seed {options.seed}",
        flush=True,
    )
    return 0 if all(it.is_clean() for it in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
