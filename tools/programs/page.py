"""Evaluation of the results: the verdict of each test, and docs/programs.md."""

import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pages
from recorded import BAD, has

from .listed import Failure, Program

#: Placeholder for the result of a test that was not collected.
ABSENT = {"outcome": "absent", "text": "it was not collected"}


@dataclass
class Verdict:
    """Evaluation of a program's results."""

    passed: int = 0
    used: int = 0  # of those that passed, how many used the device
    skipped: int = 0  # skipped or expected to fail by their authors, also without rustdev
    without: dict[str, str] = field(default_factory=dict)  # fail without rustdev, too: their messages there
    listed: list[tuple[Failure, int]] = field(default_factory=list)  # with the number of tests
    unlisted: dict[str, str] = field(default_factory=dict)  # fail, are skipped or absent with the device alone: their messages
    gone: list[Failure] = field(default_factory=list)  # are listed, and did not happen
    fallbacks: list[str] = field(default_factory=list)

    @property
    def bad(self) -> bool:
        """Whether the results deviate from the list, or no test passed."""
        return bool(self.unlisted or self.gone) or not self.passed


def judge(program: Program, results: Mapping[str, Any]) -> Verdict:
    """Compare the results with and without the device, and with the list."""
    verdict = Verdict(fallbacks=results["fallbacks"])
    counts: Counter[int] = Counter()
    host, device = results["host"], results["device"]
    for test in host | device:
        line, other = device.get(test, ABSENT), host.get(test, ABSENT)
        outcome = line["outcome"]
        if outcome == "passed":
            verdict.passed += 1
            verdict.used += line["used"]
        elif outcome in BAD and other["outcome"] in BAD:
            verdict.without[test] = other["text"]
        elif outcome in BAD or other["outcome"] == "passed":
            index = next((index for index, failure in enumerate(program.failures) if has(failure.tests, test)), None)
            if index is None:
                verdict.unlisted[test] = line["text"] if outcome in BAD else f"{outcome} with the device alone: {line['text']}"
            else:
                counts[index] += 1
        elif line is not ABSENT:
            verdict.skipped += 1
    for index, failure in enumerate(program.failures):
        if counts[index]:
            verdict.listed.append((failure, counts[index]))
        elif not failure.flaky:
            verdict.gone.append(failure)
    return verdict


def page(
    verdicts: Mapping[str, tuple[Program, Verdict]], releases: Mapping[str, str], machine: str, missing: list[str]
) -> list[str]:
    """Return the lines of docs/programs.md that the tool writes."""
    rows: list[list[Any]] = []
    fail, fail_without, unlisted, left_out = [], [], [], []
    for name, (program, verdict) in verdicts.items():
        counts = [verdict.passed, verdict.used, verdict.skipped, len(verdict.without), sum(count for _, count in verdict.listed)]
        rows.append([f"{name} {releases[name]}", program.what, program.way, *counts, short(verdict.fallbacks)])
        fail += [(name, count, failure.whose, failure.reason) for failure, count in verdict.listed]
        texts = Counter(" ".join(text.split())[:120] for text in verdict.without.values())
        fail_without += [(name, count, text) for text, count in texts.most_common()]
        unlisted += [(name, test, text[:200]) for test, text in verdict.unlisted.items()]
        unlisted += [(name, " ".join(failure.tests), "is listed, and did not happen") for failure in verdict.gone]
        if program.left_out:
            selection = shlex.join((*program.tests, *program.arguments))
            left_out.append((name, f"`{selection}`", program.left_out))
    total = [sum(column) for column in zip(*(row[3:8] for row in rows), strict=True)]
    rows.append([f"**{len(verdicts)} programs**", "", "", *(total or [0] * 5), ""])
    columns = "program | what | way | passed: | used: | skipped: | also without: | listed: | fell back"
    lines = [f"{machine}.", "", *pages.table(columns, rows)]
    if missing:
        lines += ["", f"Without a result: {', '.join(missing)}."]
    lines += pages.section("What fails, or does not run, with the device alone", "program | tests: | whose | reason", fail)
    lines += pages.section("What fails without rustdev too", "program | tests: | what they say", fail_without)
    lines += pages.section("Not as listed", "program | test | what", unlisted)
    return lines + pages.section("What is left out", "program | what runs | why not the rest", left_out)


def short(names: list[str]) -> str:
    """Return operators as a table cell."""
    shown = ", ".join(f"`{name.removeprefix('aten::')}`" for name in names[:6])
    return shown + (f" and {len(names) - 6} more" if len(names) > 6 else "")
