"""``python -m rustdev.explore script.py``: search for an order of tasks that changes what a program does.

    python -m rustdev.explore [--runs N] [--schedule random|lazy|reverse-priority] [--first SEED] [--keep-going] [--timeout SECONDS]
                              script.py [arguments]

The program runs once with ``RUSTDEV_SCHEDULE=eager``, where every task runs at its submission, and then under other orders, each
time in a separate process. Its standard output and its exit code are compared. The exit code of this command is 1 if there is a
difference, 2 if the program cannot be explored, else 0.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from ._name import variable

__all__ = ["main"]

#: Number of lines shown before a difference, and from the difference on.
_BEFORE, _FROM = 2, 6


@dataclass(frozen=True)
class _Run:
    """Result of a run of the program under one order of tasks."""

    order: str
    #: Exit code; None after a timeout.
    code: int | None
    output: bytes
    errors: bytes
    tasks: list[str]

    def did(self) -> tuple[int | None, bytes]:
        """The exit code and the output, which are compared between runs."""
        return self.code, self.output


def _run(order: str, command: Sequence[str], timeout: float | None) -> _Run:
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "tasks"
        environment = {**os.environ, variable("SCHEDULE"): order, variable("SCHEDULE_LOG"): str(log)}
        try:
            done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, timeout=timeout, check=False)
            code, output, errors = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            code, output, errors = None, late.stdout or b"", late.stderr or b""
        tasks = log.read_text().splitlines() if log.exists() else []
    return _Run(order, code, output, errors, tasks)


def _first_difference(left: Sequence[object], right: Sequence[object]) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False))))


def _excerpt(lines: Sequence[str], index: int) -> str:
    shown = [f"  {number + 1:>6}  {lines[number]}" for number in range(max(index - _BEFORE, 0), min(index + _FROM, len(lines)))]
    before, after = index > _BEFORE, index + _FROM < len(lines)
    return "\n".join(["     ..."] * before + shown + ["     ..."] * after) or "  no task"


def _text(lines: bytes) -> list[str]:
    return lines.decode(errors="replace").splitlines()


def _tell(reference: _Run, run: _Run) -> None:
    """Print how two runs differ."""
    print(f"{variable('SCHEDULE')}={run.order} differs from {reference.order}:")
    if reference.code != run.code:
        codes = ["it did not end" if code is None else f"exit code {code}" for code in (reference.code, run.code)]
        print(f"{reference.order}: {codes[0]}; {run.order}: {codes[1]}")
    if reference.output != run.output:
        outputs = [_text(reference.output), _text(run.output)]
        line = _first_difference(*outputs)
        for name, output in zip((reference.order, run.order), outputs, strict=True):
            print(f"line {line + 1} of the output, {name}: {output[line] if line < len(output) else '(none)'}")
    if run.code != reference.code and run.errors:
        print(f"the last lines of its errors, {run.order}:")
        print("\n".join(f"  {line}" for line in _text(run.errors)[-3:]))
    index = _first_difference(reference.tasks, run.tasks)
    for part in (reference, run):
        print(f"tasks in the order that they ran in, {part.order}, from the first difference on:")
        print(_excerpt(part.tasks, index))


def main(arguments: Sequence[str]) -> int:
    """Run a program under many orders of its tasks.

    Args:
        arguments: Command-line arguments.

    Returns:
        Exit code: 0 (no difference), 1 (a difference) or 2 (the program cannot be explored).

    Raises:
        SystemExit: If the arguments are malformed.
    """
    parser = argparse.ArgumentParser("python -m rustdev.explore", description="Run a program under many orders of its tasks.")
    parser.add_argument("--runs", type=int, default=100, help="how many seeds of random orders (default: 100)")
    parser.add_argument("--schedule", choices=("random", "lazy", "reverse-priority"), default="random")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed (default: 0)")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first difference")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="for each run; one that takes longer counts as different")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    command = [options.program, *options.arguments]
    orders = [options.schedule]
    if options.schedule == "random":
        orders = [f"random:{seed}" for seed in range(options.first, options.first + options.runs)]

    reference = _run("eager", command, options.timeout)
    if reference.code is None or (reference.code != 0 and not reference.tasks):
        sys.stderr.write(reference.errors.decode(errors="replace"))
        print(f"{options.program} does not run to a task of the device under eager: there is nothing to explore", file=sys.stderr)
        return 2
    different: list[str] = []
    for order in orders:
        run = _run(order, command, options.timeout)
        if run.did() == reference.did():
            continue
        if not different:
            _tell(reference, run)
        different.append(order)
        if not options.keep_going:
            break
    if not different:
        print(f"{len(orders)} of {len(orders)} orders do the same as eager: {len(reference.tasks)} tasks")
        return 0
    if options.keep_going:
        print(f"{len(different)} of {len(orders)} orders differ: {', '.join(different)}")
    print(f"to run it again: {variable('SCHEDULE')}={different[0]} python {' '.join(command)}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
