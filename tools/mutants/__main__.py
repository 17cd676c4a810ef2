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
from .trial import failures, of_check, run

RESULTS = DIRECTORY / "results.json"
#: Time limit of the wider selection, and of the run without a fault.
LONG_SECONDS = 3600

Trial = dict[str, Any]


class Record:
    """The results, stored in a file, so that an interrupted run can be continued. Results of changed entries are dropped.

    Attributes:
        control: What passed without a fault.
        mutants: The trials of each mutant by their stage, which is "targeted", "wide" or "check".
    """

    def __init__(self, table: list[Mutant]) -> None:
        read: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"control": [], "mutants": {}}
        self.control: list[str] = read["control"]
        self.mutants: dict[Mutant, dict[str, Trial]] = {mutant: read["mutants"].get(mutant.digest, {}) for mutant in table}

    def run(self, mutant: Mutant, stage: str, trial: Callable[[], Trial]) -> None:
        """Run a stage that has no result, and store and print the result."""
        entry = self.mutants[mutant]
        if stage in entry:
            return
        done = entry[stage] = trial()
        self.save()
        by = f" by {done['by']}" if done["by"] else ""
        print(f"{mutant.number} {mutant.family}, {stage}: {done['outcome']}{by}, {done['seconds']:.0f} s", flush=True)

    def save(self) -> None:
        """Write the file."""
        mutants = {mutant.digest: trials for mutant, trials in self.mutants.items()}
        text = json.dumps({"control": self.control, "mutants": mutants}, indent=1)
        RESULTS.with_suffix(".new").write_text(text + "\n")
        RESULTS.with_suffix(".new").replace(RESULTS)


def main() -> int:
    """Build, run the mutants without a result, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="X", help="numbers or families; default: all")
    parser.add_argument("--wide", default="", metavar="ARGUMENTS", help="arguments of pytest for what the named tests do not kill")
    parser.add_argument("--check", default="", metavar="ARGUMENTS", help="arguments of pytest in `make check`: does it kill?")
    parser.add_argument("--features", default="native", help="cargo's, for the build")
    arguments = parser.parse_args()
    table = load()
    wanted = [mutant for mutant in table if not arguments.only or {str(mutant.number), mutant.family} & set(arguments.only)]
    make(table, arguments.features)
    record = Record(table)
    for mutant in wanted:
        record.run(mutant, "targeted", partial(run, mutant.number, mutant.arguments, mutant.seconds))
        if arguments.wide and not killer(record.mutants[mutant]):
            record.run(mutant, "wide", partial(run, mutant.number, shlex.split(arguments.wide), LONG_SECONDS))
    is_error = any(record.mutants[mutant]["targeted"]["outcome"] == "error" for mutant in wanted)
    broken = control(record, wanted)
    if arguments.check:
        tests = of_check(shlex.split(arguments.check))
        for mutant in wanted:
            if mutant not in broken:
                record.run(mutant, "check", partial(try_check, mutant, killer(record.mutants[mutant]), tests))
    write(ROOT / "docs/mutants.md", record.mutants)
    print(f"mutants: {summary(record.mutants)}")
    for mutant in broken:
        print(f"mutants: what kills {mutant.number} fails without it as well")
    return int(bool(broken) or is_error)


def control(record: Record, wanted: list[Mutant]) -> list[Mutant]:
    """Control run: run what killed mutants without a fault. Return the mutants whose killing test fails then, too.

    After a timeout or a signal the killing test is unknown, and all tests that the mutant names run.
    """
    killed = {mutant: by for mutant in wanted if (by := killer(record.mutants[mutant]))}
    new = sorted({by for by in killed.values() if "::" in by} - set(record.control))
    failed = failures(new, LONG_SECONDS) if new else []
    record.control += [test for test in new if test not in failed]
    broken = [mutant for mutant, by in killed.items() if by in failed]
    for mutant, by in killed.items():
        if "::" not in by and mutant.tests not in record.control:
            if run(0, mutant.arguments, mutant.seconds)["outcome"] == "survived":
                record.control.append(mutant.tests)
            else:
                broken.append(mutant)
    for mutant in broken:
        record.mutants[mutant] = {}
    record.save()
    return broken


def try_check(mutant: Mutant, by: str | None, tests: set[str]) -> Trial:
    """Return whether ``make check`` kills a mutant, by its subset of the named tests or, if that is empty, of their files.

    Args:
        mutant: Mutant.
        by: What killed it.
        tests: The tests of ``make check``.
    """
    if by in tests:
        return {"outcome": "killed", "by": by, "seconds": 0}
    files = [argument for argument in mutant.arguments if argument.startswith("tests/")]
    trials = (run(mutant.number, ["--layer=check", *arguments], mutant.seconds) for arguments in (mutant.arguments, files))
    return next((trial for trial in trials if trial["outcome"] == "killed"), {"outcome": "survived", "by": "", "seconds": 0})


if __name__ == "__main__":
    sys.exit(main())
