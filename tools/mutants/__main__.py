"""Run the tests with each fault: ``make mutants``."""

import argparse
import json
import shlex
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from .page import killer, summary, write
from .scratch import DIRECTORY, ROOT, make
from .table import Mutant, load
from .trial import of_check, run

RESULTS = DIRECTORY / "trials.json"

Trial = dict[str, Any]


class Record:
    """The trials of each mutant by their stage: "targeted", "control" (without a fault, of what killed the mutant) or "check".

    They are stored in a file, so that an interrupted run can be continued. Those of changed entries are dropped.
    """

    def __init__(self, table: list[Mutant]) -> None:
        read: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        self.mutants: dict[Mutant, dict[str, Trial]] = {mutant: read.get(mutant.digest, {}) for mutant in table}

    def run(self, mutant: Mutant, stage: str, trial: Callable[[], Trial]) -> str:
        """Run a stage that has no result, and store and print the result. Return the outcome."""
        entry = self.mutants[mutant]
        if stage not in entry:
            done = entry[stage] = trial()
            self.save()
            by = f" by {done['by']}" if done["by"] else ""
            print(f"{mutant.number} {mutant.family}, {stage}: {done['outcome']}{by}, {done['seconds']:.0f} s", flush=True)
        return str(entry[stage]["outcome"])

    def save(self) -> None:
        """Write the file."""
        text = json.dumps({mutant.digest: trials for mutant, trials in self.mutants.items()}, indent=1)
        RESULTS.with_suffix(".new").write_text(text + "\n")
        RESULTS.with_suffix(".new").replace(RESULTS)


def main() -> int:
    """Build, run the mutants without a result, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="X", help="numbers or families; default: all")
    parser.add_argument("--check", default="", metavar="ARGUMENTS", help="arguments of pytest in `make check`: does it kill?")
    parser.add_argument("--features", default="native", help="cargo's, for the build")
    arguments = parser.parse_args()
    table = load()
    wanted = [mutant for mutant in table if not arguments.only or {str(mutant.number), mutant.family} & set(arguments.only)]
    make(table, arguments.features)
    record, errors = Record(table), 0
    for mutant in wanted:
        errors += record.run(mutant, "targeted", partial(run, mutant.number, mutant.arguments, mutant.seconds)) == "error"
        by = killer(record.mutants[mutant])
        if by is None:
            continue
        # After a timeout or a signal the killing test is unknown.
        tests = [by] if "::" in by else mutant.arguments
        if record.run(mutant, "control", partial(run, 0, tests, mutant.seconds)) != "survived":
            print(f"mutants: what kills {mutant.number} fails without it as well")
            record.mutants[mutant] = {}
            errors += 1
    record.save()
    if arguments.check:
        tests_of_check = of_check(shlex.split(arguments.check))
        for mutant in filter(record.mutants.get, wanted):
            record.run(mutant, "check", partial(try_check, mutant, killer(record.mutants[mutant]), tests_of_check))
    write(ROOT / "docs/mutants.md", record.mutants)
    print(f"mutants: {summary(record.mutants)}")
    return int(errors > 0)


def try_check(mutant: Mutant, by: str | None, tests: set[str]) -> Trial:
    """Return whether ``make check`` kills a mutant, by its subset of the named tests or, if that is empty, of their files."""
    if by in tests:
        return {"outcome": "killed", "by": by, "seconds": 0}
    files = [argument for argument in mutant.arguments if argument.startswith("tests/")]
    trials = (run(mutant.number, ["--layer=check", *arguments], mutant.seconds) for arguments in (mutant.arguments, files))
    return next((trial for trial in trials if trial["outcome"] == "killed"), {"outcome": "survived", "by": "", "seconds": 0})


if __name__ == "__main__":
    sys.exit(main())
