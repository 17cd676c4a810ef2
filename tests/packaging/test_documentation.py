"""The documentation site (``make docs``): its navigation and its reference."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import rustdev

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from documentation import OUTSIDE  # noqa: E402

DOCS = ROOT / "docs"


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
