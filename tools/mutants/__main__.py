"""Run the tests with each fault: ``make mutants``."""

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any

from .page import summary, write
from .scratch import DIRECTORY, ROOT, make
from .table import Mutant, load
from .trial import Trial, failures, of_check, run

RESULTS = DIRECTORY / "results.json"
#: Time limit of the wider selection, and of the run without a fault.
LONG_SECONDS = 3600


class Record:
    """The results, stored in a file, so that an interrupted run can be continued.

    Args:
        table: All mutants. Results of changed entries are dropped.
    """

    def __init__(self, table: list[Mutant]) -> None:
        read: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"control": [], "mutants": {}}
        known = {mutant.digest: str(mutant.number) for mutant in table}
        self.control: list[str] = read["control"]
        self.mutants: dict[str, dict[str, Any]] = {
            known[entry["digest"]]: entry for entry in read["mutants"].values() if entry["digest"] in known
        }

    def of(self, mutant: Mutant) -> dict[str, Any]:
        """Return the results of a mutant: a trial for each stage.

        Args:
            mutant: Mutant.
        """
        return self.mutants.setdefault(str(mutant.number), {"digest": mutant.digest})

    def needs(self, mutant: Mutant, stage: str, again: bool) -> bool:
        """Return whether a stage must be run.

        Args:
            mutant: Mutant.
            stage: "targeted", "wide" or "check".
            again: Whether to repeat a stage that did not kill the mutant.
        """
        trial = self.of(mutant).get(stage)
        return trial is None or (again and trial["outcome"] != "killed")

    def note(self, mutant: Mutant, stage: str, trial: Trial) -> None:
        """Store and print a result.

        Args:
            mutant: Mutant.
            stage: As for ``needs``.
            trial: Result of the stage.
        """
        self.of(mutant)[stage] = trial._asdict()
        self.save()
        by = f" by {trial.by}" if trial.by else ""
        print(f"{mutant.number} {mutant.family}, {stage}: {trial.outcome}{by}, {trial.seconds:.0f} s", flush=True)

    def save(self) -> None:
        """Write the file."""
        text = json.dumps({"control": self.control, "mutants": self.mutants}, indent=1)
        RESULTS.with_suffix(".new").write_text(text + "\n")
        RESULTS.with_suffix(".new").replace(RESULTS)


def main() -> int:
    """Build, run the mutants without a result, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="X", help="numbers or families; default: all")
    parser.add_argument("--wide", default="", metavar="ARGUMENTS", help="arguments of pytest for what the named tests do not kill")
    parser.add_argument(
        "--check",
        nargs="+",
        default=[],
        metavar="ARGUMENTS",
        help="the arguments of each run of pytest of `make check`: does it kill?",
    )
    parser.add_argument("--again", action="store_true", help="run anew what survived")
    parser.add_argument("--features", default="native", help="cargo's, for the build")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/mutants.md", help="the file to write")
    arguments = parser.parse_args()
    table = load()
    wanted = [mutant for mutant in table if not arguments.only or {str(mutant.number), mutant.family} & set(arguments.only)]
    make(table, arguments.features)
    record = Record(table)
    for mutant in wanted:
        try_named_tests(record, mutant, shlex.split(arguments.wide), arguments.again)
    broken = control(record, wanted)
    if arguments.check:
        try_check(record, wanted, [shlex.split(text) for text in arguments.check], arguments.again)
    write(arguments.page, table, record.mutants)
    print(f"mutants: {summary(table, record.mutants)}")
    for mutant in broken:
        print(f"mutants: what kills {mutant.number} fails without it as well")
    return 1 if broken or any(record.of(mutant)["targeted"]["outcome"] == "error" for mutant in wanted) else 0


def try_named_tests(record: Record, mutant: Mutant, wide: list[str], again: bool) -> None:
    """Run the tests that a mutant names, and the wider selection if they do not kill it.

    Args:
        record: Results.
        mutant: Mutant.
        wide: Arguments of pytest for the wider selection; empty for none.
        again: Whether to repeat stages that the mutant survived.
    """
    if record.needs(mutant, "targeted", again):
        record.note(mutant, "targeted", run(mutant.number, mutant.arguments, mutant.seconds))
    if wide and record.of(mutant)["targeted"]["outcome"] != "killed" and record.needs(mutant, "wide", again):
        record.note(mutant, "wide", run(mutant.number, wide, LONG_SECONDS))


def killer(entry: dict[str, Any]) -> str | None:
    """Return the test that killed a mutant, or how its run ended; None if it survived.

    Args:
        entry: Results of the mutant.
    """
    trials = (entry[stage] for stage in ("targeted", "wide") if stage in entry)
    return next((str(trial["by"]) for trial in trials if trial["outcome"] == "killed"), None)


def control(record: Record, wanted: list[Mutant]) -> list[Mutant]:
    """Control run: run the killing tests without a fault. Return the mutants whose killing test fails then, too.

    Args:
        record: Results.
        wanted: Mutants.
    """
    broken = []
    tests = {mutant.number: killer(record.of(mutant)) for mutant in wanted}
    new = sorted({test for test in tests.values() if test is not None and "::" in test} - set(record.control))
    failed = failures(new, LONG_SECONDS) if new else []
    record.control += [test for test in new if test not in failed]
    for mutant in wanted:
        test = tests[mutant.number]
        if test is None:
            continue
        # After a timeout or a signal the killing test is unknown.
        if "::" not in test and mutant.tests not in record.control:
            if run(0, mutant.arguments, mutant.seconds).outcome == "survived":
                record.control.append(mutant.tests)
            else:
                broken.append(mutant)
        if test in failed:
            broken.append(mutant)
    for mutant in broken:
        record.mutants.pop(str(mutant.number))
    record.save()
    return broken


def try_check(record: Record, wanted: list[Mutant], selections: list[list[str]], again: bool) -> None:
    """Determine which mutants ``make check`` kills, by its subset of the named tests or, if that is empty, of their files.

    Args:
        record: Results.
        wanted: Mutants.
        selections: Arguments of the pytest runs of ``make check``.
        again: Whether to repeat stages that the mutant survived.
    """
    tests = of_check(selections)
    for mutant in wanted:
        if str(mutant.number) not in record.mutants or not record.needs(mutant, "check", again):
            continue
        test = killer(record.of(mutant))
        if test in tests:
            record.note(mutant, "check", Trial("killed", test or "", 0))
            continue
        files = [argument for argument in mutant.arguments if argument.startswith("tests/")]
        trial = Trial("survived", "", 0)
        for arguments in (mutant.arguments, files):
            trial = run(mutant.number, ["--layer=check", *arguments], mutant.seconds)
            if trial.outcome == "killed":
                break
        record.note(mutant, "check", trial)


if __name__ == "__main__":
    sys.exit(main())
