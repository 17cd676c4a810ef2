"""Writes docs/mutants.md."""

from pathlib import Path
from typing import Any

import pages

from .table import Mutant

#: The trials of each mutant by their stage.
Results = dict[Mutant, dict[str, dict[str, Any]]]


def killer(entry: dict[str, dict[str, Any]]) -> str | None:
    """Return the test that killed a mutant, or how its run ended; None if it survived."""
    trial = entry.get("targeted", {"outcome": "not run"})
    return str(trial["by"]) if trial["outcome"] == "killed" else None


def summary(results: Results) -> str:
    """Return a sentence with the number of killed mutants."""
    entries = [entry for entry in results.values() if entry]
    checks = [entry["check"]["outcome"] == "killed" for entry in entries if "check" in entry]
    killed = sum(killer(entry) is not None for entry in entries)
    text = f"{len(entries)} of {len(results)} mutants have been run; the tests kill {killed} of these."
    return f"{text} The tests of `make check` kill {sum(checks)} of {len(checks)}." if checks else text


def write(path: Path, results: Results) -> None:
    """Write the page."""
    rows = []
    for mutant, entry in results.items():
        check = {"killed": "yes", "survived": "no"}.get(entry.get("check", {}).get("outcome", ""), "")
        outcome = entry.get("targeted", {}).get("outcome", "not run")
        by = killer(entry) or outcome.replace("survived", "**survives**")
        rows.append((mutant.number, mutant.family, mutant.fault, f"`{by}`" if "::" in by else by, check))
    lines = [summary(results), "", *pages.table(" | family | fault | killed by | check", rows)]
    path.write_text(pages.fill(path, lines))
