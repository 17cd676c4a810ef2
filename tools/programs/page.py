"""Evaluation of the results: the verdict of each test, and docs/programs.md."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pages
from recorded import BAD, has

from .listed import WAYS, WHOSE, Failure, Program

#: Placeholder for the result of a test that was not collected.
ABSENT = {"outcome": "absent", "text": "it was not collected"}

HEAD = """# Public programs

Libraries and programs from the package index that know nothing of rustdev, each at a pinned release: the parts of their test suites
that run without a network, and small programs of ours for those that are published without tests. `make programs` runs the list and
writes this page; `make programs PROGRAMS="einops timm"` runs some of them anew. It takes about an hour the first time, and goes on
where it was interrupted. The list with all selections is `tools/programs/programs.toml`, the releases are in
`requirements/programs.txt`, and everything is kept in `target/programs/`.

"""
COLUMNS = """
Tests of a distribution run twice, without rustdev (on PyTorch's CPU device) and with it. A test that fails both times counts under
"also without": the program does not work with this release of PyTorch, or asks for the network. "Used": passed tests in which the
device has allocated memory; the others have no use for a device, or choose the CPU device themselves. "Listed": tests that fail
with the device alone, or pass without it and are skipped or absent with it, for a reason below. "Fell back": operators that
PyTorch's CPU kernels served, by the fallback.
"""


@dataclass
class Verdict:
    """Evaluation of a program's results.

    Attributes:
        passed: Number of tests that passed on the device.
        used: Number of these that used the device.
        skipped: Number of tests that are skipped or expected to fail by their authors, also without rustdev.
        without: Tests that also fail without rustdev, with their messages there.
        listed: Number of tests of each listed failure.
        unlisted: Unlisted tests that fail only with the device, or pass without it but are skipped or absent with it, with their
            messages.
        gone: Listed failures that did not happen.
        fallbacks: Operators that fell back.
    """

    passed: int = 0
    used: int = 0
    skipped: int = 0
    without: dict[str, str] = field(default_factory=dict)
    listed: list[tuple[Failure, int]] = field(default_factory=list)
    unlisted: dict[str, str] = field(default_factory=dict)
    gone: list[Failure] = field(default_factory=list)
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


def page(verdicts: Mapping[str, tuple[Program, Verdict]], releases: Mapping[str, str], machine: str, missing: list[str]) -> str:
    """Return the text of docs/programs.md."""
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
            selection = " ".join(quoted(argument) for argument in (*program.tests, *program.arguments))
            left_out.append((name, f"`{selection}`", program.left_out))
    total = [sum(column) for column in zip(*(row[3:8] for row in rows), strict=True)]
    rows.append([f"**{len(verdicts)} programs**", "", "", *(total or [0] * 5), ""])
    columns = "program | what | way | passed: | used: | skipped: | also without: | listed: | fell back"
    lines = [HEAD + f"{machine}.", "", *pages.table("way | what runs", WAYS.items()), COLUMNS, *pages.table(columns, rows)]
    if missing:
        lines += ["", f"Without a result: {', '.join(missing)}."]
    lines += ["", "## What fails, or does not run, with the device alone", "", 'The column "whose" says:', ""]
    lines += [f"- {whose}: {meaning}" for whose, meaning in WHOSE.items()]
    lines += ["", *pages.table("program | tests: | whose | reason", fail)]
    lines += pages.section("What fails without rustdev too", "program | tests: | what they say", fail_without)
    lines += pages.section("Not as listed", "program | test | what", unlisted)
    lines += pages.section("What is left out", "program | what runs | why not the rest", left_out)
    return "\n".join(lines) + "\n"


def short(names: list[str]) -> str:
    """Return operators as a table cell."""
    shown = ", ".join(f"`{name.removeprefix('aten::')}`" for name in names[:6])
    return shown + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def quoted(argument: str) -> str:
    """Return an argument, quoted for a shell if it contains a space."""
    return f"'{argument}'" if " " in argument else argument
