"""The documentation site (``make docs``): its navigation, its reference, and its rewriting of links."""

import re
from pathlib import Path
from types import ModuleType

import pytest
import rustdev
from documentation import OUTSIDE, rewrite, slug

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SITE = {
    DOCS / "streams.md": "streams.md",
    DOCS / "decisions/README.md": "decisions/README.md",
    ROOT / "tests/README.md": "tests.md",
}


def navigation() -> list[str]:
    """Return the pages that mkdocs.yml names."""
    text = (ROOT / "mkdocs.yml").read_text()
    return re.findall(r"[\w./-]+\.md$", text[text.index("\nnav:") :], re.MULTILINE)


def test_the_navigation_names_every_page_once() -> None:
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    assert sorted(navigation()) == sorted([*pages, *OUTSIDE.values()])


def test_pages_outside_docs_are_there() -> None:
    assert [place for place in OUTSIDE if not (ROOT / place).is_file()] == []


def test_the_reference_has_every_public_name() -> None:
    pages = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    modules = set(re.findall(r"^::: (\S+)$", pages, re.MULTILINE))
    absent = []
    # Storages and tensors of each dtype, of which the first page has one as an example.
    for name in set(rustdev.__all__) - set(rustdev.legacy.__all__):  # type: ignore[attr-defined]
        value = getattr(rustdev, name)
        module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or "rustdev.random"
        if module not in modules and f"{module}.{name}" not in modules and not re.search(rf"`{name}`", pages):
            absent.append(f"{module}.{name}")
    assert sorted(absent) == []


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("[waits](streams.md#events)", "[waits](../streams.md#events)"),
        ("[files](../tests/README.md)", "[files](../tests.md)"),
        ("[why](decisions)", "[why](../decisions/README.md)"),
        ("[the table](../src/lib.rs)", "the table (`src/lib.rs`)"),
        ("[examples](../examples)", "`examples`"),
        ("[here](#events)", "[here](#events)"),
        ("[web](https://pytorch.org/a.md)", "[web](https://pytorch.org/a.md)"),
        ("[dead](none.md)", "[dead](none.md)"),
        ("[outside](../../none.md)", "[outside](../../none.md)"),
        ("```text\n[the table](../src/lib.rs)\n```\n", "```text\n[the table](../src/lib.rs)\n```\n"),
        ("```python given model x\nx\n```\n", "```python\nx\n```\n"),
        ("What waits:\n- an event\n- a stream\n", "What waits:\n\n- an event\n- a stream\n"),
        ("- an event\n- a stream\n", "- an event\n- a stream\n"),
    ],
)
def test_what_the_site_makes_of_a_page(link: str, expected: str) -> None:
    assert rewrite(link, DOCS / "page.md", "folder/page.md", SITE, None) == expected


def test_a_file_has_a_link_where_the_repository_is_known() -> None:
    page = rewrite("[the table](../src/lib.rs)", DOCS / "page.md", "page.md", SITE, "https://example.org/rustdev/")
    assert page == "[the table](https://example.org/rustdev/blob/HEAD/src/lib.rs)"


def test_anchors_are_those_of_github() -> None:
    heading = 'After an upgrade of torch it says "rustdev has a shim for torch ..."'
    assert slug(heading) == "after-an-upgrade-of-torch-it-says-rustdev-has-a-shim-for-torch-"
