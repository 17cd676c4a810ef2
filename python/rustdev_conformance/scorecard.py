"""The scorecard: counts by capability, the operators by dtype, and each failure with the command that repeats it."""

import fnmatch
import html
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rustdev_conformance.page import document, table

#: How checks end, the good first.
OUTCOMES = {
    "pass": "as the CPU, or as PyTorch documents it",
    "fail": "another result, or an exception",
    "crash": "the process ended",
    "hang": "the time limit passed",
    "unsupported": "refused by NotImplementedError: there is no kernel",
    "known": "a failure that --known expects",
    "absent": "the device does not claim the capability",
    "skipped": "nothing to compare",
}
#: Those that make the exit status 1.
BAD = ("fail", "crash", "hang")
COLORS = {"pass": "#3a9d5d", "fail": "#d64545", "crash": "#7b1e1e", "hang": "#b5541c", "unsupported": "#d9a02b", "known": "#7d8fb3"}
SHORT = {
    "pass": "✓",
    "fail": "✗",
    "crash": "crash",
    "hang": "hang",
    "unsupported": "none",
    "known": "known",
    "absent": "",
    "skipped": "",
}
#: The groups of checks of operators by dtype, in the columns of the table.
BY_DTYPE = ("ops", "grad", "layouts", "extremes")
STYLE = """
.bar { display: flex; height: 12px; width: 260px; background: #eee; } .bar span { display: block; height: 100%; }
.pass { color: #2a7d46; } .fail, .crash, .hang { color: #c03030; font-weight: 600; } .unsupported { color: #9a6b00; }
.operators td, .operators th { padding: 1px 6px; font-size: 12px; } .operators { max-height: 40em; overflow: auto; }
"""


def mark_known(results: list[dict[str, Any]], known: dict[str, str]) -> None:
    """Mark failures that are expected."""
    for result in results:
        reason = next((reason for pattern, reason in known.items() if fnmatch.fnmatchcase(result["name"], pattern)), None)
        if reason is not None and result["outcome"] in (*BAD, "unsupported"):
            result.update(outcome="known", message=f"{reason} ({result['message']})")


def counted(results: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Return how many checks ended how."""
    counts = Counter(result["outcome"] for result in results)
    return {outcome: counts[outcome] for outcome in OUTCOMES}


def card(about: dict[str, Any], results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the scorecard, as it is written in JSON."""
    groups = list(dict.fromkeys(result["name"].partition("/")[0] for result in results))
    return {
        "version": 1,
        **about,
        "counts": counted(results),
        "groups": {group: counted(it for it in results if it["name"].startswith(f"{group}/")) for group in groups},
        "fallbacks": sum(1 for it in results if it["fallbacks"]) if any(it["fallbacks"] is not None for it in results) else None,
        "checks": results,
    }


def title(card: dict[str, Any]) -> str:
    """Return the line above the counts."""
    return f"{card['device']} ({card['hardware']}), PyTorch {card['torch']}, level {card['level']}, {card['seconds']:g} s"


def text(card: dict[str, Any]) -> str:
    """Return the counts as a table of text."""
    shown = [outcome for outcome in OUTCOMES if card["counts"][outcome] or outcome in ("pass", "fail")]
    rows = [["", *shown], *([group, *(str(counts[it]) for it in shown)] for group, counts in card["groups"].items())]
    rows.append(["all", *(str(card["counts"][it]) for it in shown)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if not at else cell.rjust(width) for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join([title(card), *(line.rstrip() for line in lines)])


def bar(counts: dict[str, int]) -> str:
    """Return a bar with the shares of outcomes."""
    total = sum(counts[outcome] for outcome in COLORS) or 1
    parts = "".join(
        f'<span style="width:{100 * counts[it] / total:.2f}%;background:{color}" title="{it}: {counts[it]}"></span>'
        for it, color in COLORS.items()
        if counts[it]
    )
    return f'<div class="bar">{parts}</div>'


def operators(checks: list[dict[str, Any]]) -> str:
    """Return the table of operators by kind of check and dtype."""
    cells: dict[str, dict[str, str]] = {}
    columns: dict[str, None] = {}
    for it in checks:
        group, _, rest = it["name"].partition("/")
        if group not in (*BY_DTYPE, "errors") or it["outcome"] in ("absent", "skipped"):
            continue
        operator, _, dtype = rest.rpartition("/") if group != "errors" else (rest, "", "")
        column = f"{group} {dtype}".strip()
        columns[column] = None
        told, shown = html.escape(it["message"], quote=True), SHORT.get(it["outcome"], it["outcome"])
        cells.setdefault(operator, {})[column] = f'<span class="{it["outcome"]}" title="{told}">{shown}</span>'
    if not cells:
        return ""
    order = sorted(columns, key=lambda it: ([*BY_DTYPE, "errors"].index(it.partition(" ")[0]), it))
    rows = ([html.escape(name), *(found.get(it, "") for it in order)] for name, found in sorted(cells.items()))
    return f'<h2>Operators</h2><div class="operators">{table(["operator", *order], rows)}</div>'


def page(card: dict[str, Any]) -> str:
    """Return the scorecard as one HTML page."""
    shown = list(OUTCOMES)
    rows = [
        [html.escape(group), bar(counts), *(str(counts[it]) if counts[it] else "" for it in shown)]
        for group, counts in [*card["groups"].items(), ("all", card["counts"])]
    ]
    parts = [f"<p>{html.escape(title(card))}, Python {html.escape(card['python'])}</p>"]
    if card["fallbacks"] is not None:
        parts.append(f"<p>{card['fallbacks']} checks took the device's fallback to the CPU.</p>")
    parts.append(table(["checks", "", *shown], rows, range(2, 2 + len(shown))))
    parts.append(
        "<ul class='small'>" + "".join(f"<li>{name}: {html.escape(what)}</li>" for name, what in OUTCOMES.items()) + "</ul>"
    )
    for heading, outcomes in (("Failures", BAD), ("No kernel", ("unsupported",)), ("Known", ("known",)), ("Absent", ("absent",))):
        found = [it for it in card["checks"] if it["outcome"] in outcomes]
        lines = (
            [
                f'<span class="{it["outcome"]}">{it["outcome"]}</span>',
                html.escape(it["name"]),
                f"{html.escape(it['message'])}<br><code>{html.escape(it['command'])}</code>",
            ]
            for it in found
        )
        parts.append(
            f"<h2>{heading}: {len(found)}</h2>{table(['', 'check', 'message, and what repeats it'], lines)}" if found else ""
        )
    parts.append(operators(card["checks"]))
    return document(f"Conformance of {card['device']}", parts, STYLE)


def write(card: dict[str, Any], directory: Path) -> None:
    """Write ``scorecard.json`` and ``scorecard.html``."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "scorecard.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    (directory / "scorecard.html").write_text(page(card), encoding="utf-8")
    print(f"wrote {directory / 'scorecard.html'} and scorecard.json")
