"""``python -m rustdev.conformance --device mychip``: check a PyTorch device, and write a scorecard.

    python -m rustdev.conformance --device mychip [--level smoke|core|full] [--import MODULE] [--only PATTERN]

The device is that of any backend for PyTorch. It is compared with PyTorch's CPU device through PyTorch's public interface. Checks
run in child processes: one that crashes or hangs is a line of the scorecard. ``scorecard.html`` and ``scorecard.json`` have every
check, each with the command that repeats it. The exit status is 1 if a check failed, crashed or hung, and 2 if the device is not
there. ``python -m rustdev_conformance`` is the same command, and needs no rustdev that fits the installed PyTorch.
"""

import argparse
import json
import re
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rustdev_conformance import run, scorecard

LEVELS = {"smoke": "basics and some operators, a minute", "core": "every operator in float32", "full": "every dtype and sample"}


def name_of_device(argument: str) -> str:
    """Parse a device's type."""
    if not re.fullmatch(r"[A-Za-z_]\w*", argument):
        raise argparse.ArgumentTypeError(f"{argument!r} is not a type of devices, such as mychip")
    return argument


def positive(argument: str) -> int:
    """Parse a number above 0."""
    if not argument.isdigit() or int(argument) < 1:
        raise argparse.ArgumentTypeError(f"{argument!r} is not a number above 0")
    return int(argument)


def known_failures(argument: str) -> dict[str, str]:
    """Read patterns of names with reasons, from TOML or JSON."""
    try:
        text = Path(argument).read_text(encoding="utf-8")
        if argument.endswith(".json"):
            found = json.loads(text)
        else:
            import tomllib

            found = tomllib.loads(text)
    except (OSError, ValueError, ImportError) as error:
        raise argparse.ArgumentTypeError(f"{argument}: {error}") from None
    if not isinstance(found, dict) or not all(isinstance(reason, str) for reason in found.values()):
        raise argparse.ArgumentTypeError(f'{argument} is not a table of names and reasons: "ops/add/*" = "reason"')
    return found


def parser_of(program: str) -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = argparse.ArgumentParser(f"python -m {program}", description="Check a PyTorch device, and write a scorecard.")
    parser.add_argument("--device", required=True, type=name_of_device, help="type of the device, such as mychip")
    parser.add_argument(
        "--level", choices=LEVELS, default="core", help="; ".join(f"{name}: {what}" for name, what in LEVELS.items())
    )
    parser.add_argument(
        "--import", dest="imports", action="append", default=[], metavar="MODULE", help="module that registers the device"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATTERN", help="checks of these names, of every level: 'ops/add/*', streams"
    )
    parser.add_argument("--jobs", type=positive, default=2, help="processes that run checks at a time")
    parser.add_argument("--timeout", type=positive, default=120, metavar="SECONDS", help="time limit of a check")
    parser.add_argument("--output", type=Path, default=Path("conformance-report"), metavar="DIR", help="where the scorecard goes")
    parser.add_argument(
        "--known",
        type=known_failures,
        default={},
        metavar="FILE",
        help="table of names with reasons, in TOML or JSON: failures that are expected",
    )
    parser.add_argument("--list", action="store_true", help="print the names of the checks instead")
    return parser


def repeating(program: str, options: argparse.Namespace, name: str) -> str:
    """Return the command that repeats a check alone."""
    words = ["python", "-m", program, "--device", options.device]
    words += [word for module in options.imports for word in ("--import", module)]
    words += ["--level", options.level] if options.level != "core" else []
    return shlex.join([*words, "--only", name])


def main(arguments: Sequence[str], program: str = "rustdev_conformance") -> int:
    """Run the checks, write the scorecard, and return the exit status.

    Args:
        arguments: Command-line arguments.
        program: The module whose command this is.
    """
    options = parser_of(program).parse_args(arguments)
    sent = {"device": options.device, "level": options.level, "imports": options.imports, "only": options.only}
    is_single = bool(options.only) and not any(character in pattern for pattern in options.only for character in "*?[")
    begin = time.monotonic()

    def tell(result: dict[str, Any], total: int) -> None:
        done.append(result["name"])
        if result["outcome"] in scorecard.BAD:
            print(f"[{len(done)}/{total}] {result['outcome']}: {result['name']}: {result['message'][:160]}", file=sys.stderr)
        elif sys.stderr.isatty():
            print(f"\r[{len(done)}/{total}] {result['name'][:90]:90}", end="\r", file=sys.stderr)

    done: list[str] = []
    try:
        if options.list:
            print("\n".join(run.listed(sent)))
            return 0
        about, results = run.run(sent, 1 if is_single else options.jobs, options.timeout, tell)
    except run.RefusedError as refusal:
        print(f"{program}: {refusal}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{program}: interrupted after {len(done)} checks", file=sys.stderr)
        return 130
    if not results:
        print(f"{program}: no check has a name like {', '.join(options.only)}; --list prints them", file=sys.stderr)
        return 2
    for result in results:
        result["command"] = repeating(program, options, result["name"])
    scorecard.mark_known(results, options.known)
    card = scorecard.card({**about, "level": options.level, "seconds": round(time.monotonic() - begin, 1)}, results)
    print(scorecard.text(card))
    try:
        scorecard.write(card, options.output)
    except OSError as error:
        print(f"{program}: cannot write the scorecard: {error}", file=sys.stderr)
        return 2
    return int(any(card["counts"][outcome] for outcome in scorecard.BAD))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
