"""The document, the style and the tables that the HTML pages of reports share. A page is one file."""

import html
from collections.abc import Collection, Iterable, Sequence

_STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em; color: #222; background: #fff; }
table { border-collapse: collapse; width: 100%; margin-bottom: 2em; }
th, td { text-align: left; padding: 4px 10px; border-bottom: 1px solid #ddd; vertical-align: top; }
th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
code { font-family: ui-monospace, monospace; font-size: 13px; }
.small { color: #666; font-size: 12px; }
"""


def document(title: str, parts: Iterable[str], style: str = "") -> str:
    """Return an HTML document.

    Args:
        title: Title, which is also the heading.
        parts: HTML of the body, behind the heading.
        style: Style sheet beside that of all pages.
    """
    heading = html.escape(title)
    body = "\n".join(parts)
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>rustdev: {heading[:1].lower() + heading[1:]}</title><style>{_STYLE}{style}</style></head>
<body>
<h1>{heading}</h1>
{body}
</body>
</html>
"""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[int] = ()) -> str:
    """Return an HTML table.

    Args:
        heads: Texts of the heads.
        rows: HTML of the cells.
        numbers: Columns of numbers, which are aligned to the right.
    """

    def line(element: str, cells: Sequence[str]) -> str:
        kinds = (' class="n"' if column in numbers else "" for column in range(len(cells)))
        return f"<tr>{''.join(f'<{element}{kind}>{cell}</{element}>' for kind, cell in zip(kinds, cells, strict=True))}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', [html.escape(head) for head in heads])}</thead><tbody>{body}</tbody></table>"
