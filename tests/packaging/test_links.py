"""The links of README.md, CONTRIBUTING.md, docs/ and tests/README.md lead to existing files and headings; tools can write pages."""

import re
from pathlib import Path

import pages
import pytest
from documentation import FENCED, slug

ROOT = Path(__file__).parents[2]
ROOTED = ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY", "tests/README", "benches/operators/limits")
PAGES = [
    *(ROOT / f"{name}.md" for name in ROOTED),
    *sorted((ROOT / "docs").rglob("*.md")),
]
LINK = re.compile(r"\]\(([^()\s]+)\)")


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return FENCED.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """Return what GitHub calls the headings of a page."""
    return set(map(slug, re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)))


def leads_nowhere(page: Path, link: str) -> bool:
    """Return whether a link names a file or a heading that is not there; the web is not asked."""
    if link.startswith(("http:", "https:")):
        return False
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return not target.exists() or (bool(anchor) and anchor not in anchors(target))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert [link for link in LINK.findall(prose(page)) if leads_nowhere(page, link)] == []


def test_a_link_that_leads_nowhere_is_found() -> None:
    readme = ROOT / "README.md"
    assert leads_nowhere(readme, "docs/none.md")
    assert leads_nowhere(readme, "docs/streams.md#none")
    assert not leads_nowhere(readme, "docs/streams.md#events")


def test_every_page_can_be_reached_from_the_front_page() -> None:
    seen, pending = set(), [ROOT / "README.md"]
    while pending:
        page = pending.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        targets = [(page.parent / link.partition("#")[0]).resolve() for link in LINK.findall(prose(page)) if "://" not in link]
        pending += [inner for target in targets for inner in (target.glob("*.md") if target.is_dir() else [target])]
    assert [page.name for page in PAGES if page not in seen] == []


@pytest.mark.parametrize("page", [page for page in PAGES if "<!-- begin: " in page.read_text()], ids=lambda page: page.stem)
def test_what_a_tool_writes_stands_between_comments_with_its_name(page: Path) -> None:
    before, _, rest = page.read_text().partition("<!-- begin: ")
    tool, _, rest = rest.partition(" -->\n")
    _, _, after = rest.partition(f"<!-- end: {tool} -->\n")
    assert (ROOT / tool).exists()
    assert pages.fill(page, ["written"]) == f"{before}<!-- begin: {tool} -->\nwritten\n<!-- end: {tool} -->\n{after}"
