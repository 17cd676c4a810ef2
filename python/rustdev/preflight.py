"""``python -m rustdev.preflight script.py``: run a program without computing, and report whether its memory fits.

    python -m rustdev.preflight [--profile NAME] [--json FILE] [--html FILE] (script.py | -m module) [arguments]
    python -m rustdev.preflight --fit batch_size=1:512 script.py
    python -m rustdev.preflight --compare=--checkpoint --compare="--checkpoint --shard 8" script.py

The program runs as a dry run (:func:`rustdev.dry_run`): with ``--profile`` in the memory of that GPU, else in that of
``RUSTDEV_MEMORY_LIMIT`` or ``RUSTDEV_PROFILE``, else without a limit. With a GPU the report has the time of a training step on
it as well, by the simulated clock (:func:`rustdev.simulated_clock`). Arguments, exit code and tracebacks of the program are as if
Python had run it directly. The report is printed to stderr after the program has ended, and written as JSON and as an HTML page.

``--fit NAME=LOW:HIGH`` finds the largest value of an argument with which the program fits, by bisection. The value takes the place
of ``{NAME}`` in the program's arguments, or follows them as ``--NAME VALUE``. ``--compare=SWITCHES`` runs the program once more,
with these arguments behind its own. Each of these runs is a dry run in a process of its own. The report is that of the largest
value that fits, or of the lowest one if none does.
"""

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from rustdev import _rustdev
from rustdev._preflight import trials
from rustdev._preflight.page import page
from rustdev._preflight.report import text
from rustdev._program import _add_file, _add_program, _write_file

from ._name import variable

__all__ = ["main"]


def _range(argument: str) -> trials.Range:
    """Parse ``NAME=LOW:HIGH``."""
    match = re.fullmatch(r"([A-Za-z_][\w.-]*)=(\d+):(\d+)", argument)
    if match is None:
        raise argparse.ArgumentTypeError(f"{argument!r} is not NAME=LOW:HIGH, such as batch_size=1:512")
    found = trials.Range(match[1], int(match[2]), int(match[3]))
    if found.low > found.high:
        raise argparse.ArgumentTypeError(f"{found.low} is more than {found.high}")
    return found


def _switches(argument: str) -> list[str]:
    """Parse arguments of the program."""
    try:
        return shlex.split(argument)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{argument!r}: {error}") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m rustdev.preflight", description="Run a program without computing: does it fit?")
    parser.add_argument("--profile", choices=[name for name, *_ in _rustdev.profiles()], help="the GPU whose memory it has")
    parser.add_argument(
        "--cluster",
        metavar="LINKS",
        help="the machine of the GPUs, for the time of collectives: gpus:8,inside:nvlink4,between:ib400",
    )
    _add_file(parser, "--json", "also write the report as JSON")
    _add_file(parser, "--html", "also write the report as a page with a picture")
    parser.add_argument(
        "--fit", type=_range, metavar="NAME=LOW:HIGH", help="find the largest value of the program's argument --NAME that fits"
    )
    parser.add_argument(
        "--compare", type=_switches, action="append", default=[], metavar="SWITCHES",
        help="run the program with these arguments as well; may be given several times, as --compare=--switch",
    )  # fmt: skip
    _add_program(parser)
    return parser


def _of_rank(path: str, rank: int | None) -> str:
    """Return the file of a rank: all ranks of torchrun but the first one add their number to the name."""
    stem, suffix = os.path.splitext(path)
    return f"{stem}-rank{rank}{suffix}" if rank else path


def _publish(report: dict[str, Any], options: argparse.Namespace) -> None:
    """Print the report, and write it to the files that are wanted."""

    def save(path: str, content: str) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)

    print(text(report), file=sys.stderr)
    if options.json:
        _write_file(_of_rank(options.json, report["rank"]), lambda path: save(path, json.dumps(report, indent=2)))
    if options.html:
        _write_file(_of_rank(options.html, report["rank"]), lambda path: save(path, page(report)))


def _run_trials(options: argparse.Namespace) -> int:
    """Run the program several times, publish the report, and return the exit code of the run that it is on."""
    command = trials.Command(("-m",) * options.is_module + (options.program,), tuple(options.arguments))
    if options.fit:
        command, base = trials.fit(command, options.fit)
    else:
        base = trials.run(command, shows_output=True)
    if options.compare:
        trials.compare(command, base, options.compare)
    _publish(base.report, options)
    return base.code


def main(arguments: Sequence[str]) -> None:
    """Run a program as a dry run, with a report of its memory.

    Args:
        arguments: Command-line arguments.

    Raises:
        SystemExit: If the program raises it, or raises another exception, whose traceback is printed; with ``--fit`` and
            ``--compare`` always, with the exit code of the run that the report is on.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    has_trials = bool(options.fit or options.compare)
    if has_trials and "RANK" in os.environ:
        parser.error("--fit and --compare run the program by themselves, not under torchrun")
    profile = options.profile or os.environ.get(variable("PROFILE"))
    wanted = {variable("COMPUTE"): "none"} | ({variable("PROFILE"): profile, variable("CLOCK"): "profile"} if profile else {})
    if options.cluster:
        wanted[variable("CLUSTER")] = options.cluster
    if not wanted.items() <= os.environ.items():
        # The environment is read once, at the import of the package.
        os.execve(sys.executable, [sys.executable, "-m", "rustdev.preflight", *arguments], os.environ | wanted)
    if has_trials:
        raise SystemExit(_run_trials(options))
    trials.watched(options, lambda report: _publish(report, options))


if __name__ == "__main__":
    main(sys.argv[1:])
