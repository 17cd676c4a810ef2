"""Writes docs/mutants.md."""

from pathlib import Path
from typing import Any

from .table import Mutant

__all__ = ["summary", "write"]

_HEAD = """\
# Mutants

A mutant is the program with one fault, of a kind that a programmer makes: `tools/mutants/mutants.toml` has the old and the
new text of each. Tests that are of use fail with it. `make mutants` runs each mutant against the tests that are named beside
it in that file, stopping at the first that fails, and then against those of `WIDE`, if there are some; it goes on where it
was interrupted, and writes this page.

All mutants are compiled into one module, in a scratch copy of the tree (`target/mutants/tree`), where an environment variable
chooses one at run time. The tests that killed pass without one.

"Check" says whether the Python tests of `make check` kill the mutant as well ([CONTRIBUTING.md](../CONTRIBUTING.md)). The
Rust tests are not counted.
"""


def _cell(trial: dict[str, Any] | None) -> str:
    if trial is None:
        return "not run"
    if trial["outcome"] != "killed":
        return str(trial["outcome"])
    return f"`{trial['by']}`" if "::" in trial["by"] else str(trial["by"])


def _best(entry: dict[str, Any]) -> dict[str, Any] | None:
    """Return the decisive trial: the first that killed the mutant, else the last."""
    trials: list[dict[str, Any]] = [entry[stage] for stage in ("targeted", "wide") if stage in entry]
    return next((trial for trial in trials if trial["outcome"] == "killed"), trials[-1] if trials else None)


def summary(mutants: list[Mutant], results: dict[str, Any]) -> str:
    """Return a sentence with the number of killed mutants.

    Args:
        mutants: All mutants.
        results: Results by mutant number.
    """
    entries = [results.get(str(mutant.number), {}) for mutant in mutants]
    trials = [trial for trial in map(_best, entries) if trial is not None]
    checks = [entry["check"] for entry in entries if "check" in entry]
    killed = [sum(trial["outcome"] == "killed" for trial in found) for found in (trials, checks)]
    text = f"Of {len(mutants)} mutants {len(trials)} have been run; the tests kill {killed[0]} of these."
    return f"{text} Those of `make check` kill {killed[1]} of {len(checks)}." if checks else text


def write(path: Path, mutants: list[Mutant], results: dict[str, Any]) -> None:
    """Write the page.

    Args:
        path: File to write.
        mutants: All mutants.
        results: Results by mutant number.
    """
    lines = [_HEAD, summary(mutants, results), "", "| | family | fault | killed by | check |", "|---|---|---|---|---|"]
    for mutant in mutants:
        entry = results.get(str(mutant.number), {})
        check = {"killed": "yes", "survived": "no"}.get(entry.get("check", {}).get("outcome", ""), "")
        fault = mutant.fault.replace("|", "\\|")
        killed = _cell(_best(entry)).replace("survived", "**survives**").replace("|", "\\|")
        lines.append(f"| {mutant.number} | {mutant.family} | {fault} | {killed} | {check} |")
    path.write_text("\n".join(lines) + "\n")
