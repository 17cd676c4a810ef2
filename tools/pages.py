"""Pages that the tools write, in Markdown: tables, and the part of a page that a tool writes."""

import re
from collections.abc import Iterable
from pathlib import Path


def fill(page: Path, lines: Iterable[str]) -> str:
    """Return the text of a page with lines between its comments ``begin: TOOL`` and ``end: TOOL``; the rest is written by hand."""
    found = re.fullmatch(r"(.*<!-- begin: ([^>]*) -->\n).*(<!-- end: \2 -->.*)", page.read_text(), re.DOTALL)
    assert found, f"{page} has no comments that say what a tool writes"
    return found[1] + "\n".join(lines) + "\n" + found[3]


def row(cells: Iterable[object]) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cell(it) for it in cells)} |"


def cell(content: object) -> str:
    """Return the text of a cell, in one line."""
    return " ".join(str(content).split()).replace("|", "\\|")


def table(head: str, rows: Iterable[Iterable[object]]) -> list[str]:
    """Return the lines of a table. Bars separate the names of columns, and those that end with a colon are aligned to the right."""
    names = [name.strip() for name in head.split("|")]
    lines = [row(name.removesuffix(":") for name in names), f"|{'|'.join('---:' if it.endswith(':') else '---' for it in names)}|"]
    return lines + [row(cells) for cells in rows]


def section(title: str, head: str, rows: Iterable[Iterable[object]]) -> list[str]:
    """Return the lines of a section with a table; none without rows."""
    lines = table(head, rows)
    return ["", f"## {title}", "", *lines] if len(lines) > 2 else []
