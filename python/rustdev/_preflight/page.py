"""The report of a dry run as a self-contained HTML page, with a picture of the memory over the run."""

import html
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rustdev_conformance.page import document, table

from rustdev.memory import _size_text

from .chart import COLOURS, chart
from .report import comparison_rows, fit_rows, fit_verdict, merged, spoken, steps_text, verdict, where

_STYLE = """
svg { width: 100%; max-width: 1200px; display: block; }
.bar { height: 12px; min-width: 1px; margin-top: 4px; }
td.bars { width: 50%; }
"""


def _escaped(rows: Iterable[Sequence[str]]) -> Iterator[list[str]]:
    for row in rows:
        yield [html.escape(cell) for cell in row]


def _bar(part: float, colour: str) -> str:
    return f'<div class="bar" style="width: {100 * part:.1f}%; background: {colour}"></div>'


def _parts(peak: dict[str, Any]) -> str:
    reserved = max(peak["reserved"], 1)
    rows = [(name, size, COLOURS[name]) for name, size in peak["parts"].items()]
    rows += [(name, peak[name], "#ddd") for name in ("fragmentation", "unused_segments")]
    cells = ([spoken(name), _size_text(size), f"{size:,}", _bar(size / reserved, colour)] for name, size, colour in rows)
    return table(("part", "memory", "bytes", ""), cells, (1, 2))


def _activations(peak: dict[str, Any]) -> Iterator[str]:
    rows = merged(peak["activations_by_module"])
    if rows:
        most = max(rows[0][2], 1)
        cells = (
            [f"<code>{html.escape(name)}</code>", str(count), _size_text(size), _bar(size / most, COLOURS["activations"])]
            for name, count, size in rows
        )
        yield "<h3>Activations by module</h3>"
        yield table(("module", "count", "memory", ""), cells, (1, 2))


def _device(device: dict[str, Any]) -> Iterator[str]:
    peak, reserved = device["peak"], device["reserved_peak"]
    yield f"<h2>Device {device['device']}</h2>"
    yield table(
        ("peak", "memory", "bytes", "where"),
        [
            ["allocated", _size_text(peak["allocated"]), f"{peak['allocated']:,}", html.escape(where(peak["at"]))],
            ["reserved", _size_text(reserved["reserved"]), f"{reserved['reserved']:,}", html.escape(where(reserved["at"]))],
            ["memory of the device", _size_text(device["total"]), f"{device['total']:,}", ""],
        ],
        (1, 2),
    )
    for shortage in device["shortages"]:
        yield f"<p><b>Out of memory</b>: {_size_text(shortage['requested'])} more in {html.escape(where(shortage))}</p>"
    yield chart(device)
    yield "<h3>What is reserved at the peak of allocated memory</h3>"
    yield _parts(peak)
    yield from _activations(peak)


def _beside(items: list[dict[str, Any]]) -> str:
    rows = (
        [item["what"], "unknown" if item["bytes"] is None else _size_text(item["bytes"]), item["note"], item["source"]]
        for item in items
    )
    return table(("beside it on a GPU", "memory", "", "source"), _escaped(rows), (1,))


def page(report: dict[str, Any]) -> str:
    """Return the HTML of the page."""
    parts = [f"<p>{html.escape(verdict(report))}.</p>"]
    if "fit" in report:
        heads, rows = fit_rows(report["fit"])
        parts += [
            f"<h2>The largest {html.escape(report['fit']['name'])}</h2>",
            f"<p>{html.escape(fit_verdict(report['fit']))}.</p>",
        ]
        parts.append(table(heads, _escaped(rows), (2, 3, 4)))
    if "comparison" in report:
        heads, rows = comparison_rows(report["comparison"])
        parts += ["<h2>With other switches</h2>", table(heads, _escaped(rows), range(2, len(heads)))]
    parts += [f"<p>{html.escape(line[0].upper() + line[1:])}.</p>" for line in steps_text(report)]
    for device in report["devices"]:
        parts += _device(device)
    parts.append(_beside(report["beside"]) if report["devices"] else "<p>It has not used the device.</p>")
    return document("Preflight", parts, _STYLE)
