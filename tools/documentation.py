"""Hooks of mkdocs.yml (``make docs``): they adapt pages that are written for the repository to the documentation site.

Some pages outside docs/ become pages of the site, and links between all pages are rewritten. A link to another file of the
repository leads to ``repo_url`` (the variable ``REPOSITORY_URL``) if that is set; else it becomes the path of the file as text. A
dead link is left as it is, and mkdocs rejects it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
#: Pages outside docs/, with their names on the site.
OUTSIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benches/models/limits.md": "limits/models.md",
    "benches/operators/limits.md": "limits/operators.md",
    "examples/custom_kernel/README.md": "examples/custom_kernel.md",
    "examples/hardware/README.md": "examples/hardware.md",
    "tests/README.md": "tests.md",
}
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\[\]]*)\]\(([^()\s]+)\)")
#: A list or table directly after a paragraph: Python-Markdown requires an empty line between them.
FOLLOWS = re.compile(r"^((?![ \t]|[-*|#>]|\d+\. ).+\n)(?=[-*] |1\. |\|)", re.MULTILINE)


def slug(heading: str, separator: str = "-") -> str:
    """Return the anchor of a heading, as GitHub generates it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def relative(target: str, page: str) -> str:
    """Return the relative link from one page of the site to another."""
    return "../" * page.count("/") + target


def resolve(label: str, link: str, page: Path, uri: str, site: dict[Path, str], repository: str | None) -> str:
    """Return a link of a page, rewritten for the site.

    The link is relative to the page's path in the repository. ``uri`` is the page's name on the site, ``site`` the names of all
    pages by their paths, and ``repository`` the URL of the repository, if known.
    """
    path, anchor = re.fullmatch(r"([^#]*)(#.*)?", link).groups("")  # type: ignore[union-attr]
    if not path or "://" in path or path.startswith("mailto:"):
        return f"[{label}]({link})"
    target = (page.parent / path).resolve()
    name = site.get(target) or site.get(target / "README.md")
    if name is not None:
        return f"[{label}]({relative(name, uri)}{anchor})"
    if not target.exists() or not target.is_relative_to(ROOT):
        return f"[{label}]({link})"
    inside = target.relative_to(ROOT).as_posix()
    if repository:
        return f"[{label}]({repository.rstrip('/')}/blob/HEAD/{inside}{anchor})"
    return f"`{inside}`" if label.strip("`") in inside else f"{label} (`{inside}`)"


def rewrite(markdown: str, page: Path, uri: str, site: dict[Path, str], repository: str | None) -> str:
    """Return the text of a page, rewritten for the site; see `resolve` for the arguments."""
    parts, end = [], 0
    for block in [*FENCED.finditer(markdown), None]:
        prose = FOLLOWS.sub(r"\1\n", markdown[end : block.start() if block else None])
        parts.append(LINK.sub(lambda match: resolve(match[1], match[2], page, uri, site, repository), prose))
        if block:
            # Words after the language say how a test runs the block; they are removed.
            parts.append(re.sub(r"\A(```\w*).*", r"\1", block[0]))
            end = block.end()
    return "".join(parts)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Makes mkdocs generate the anchors of GitHub, which the links of the pages use."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages outside docs/."""
    from mkdocs.structure.files import File  # imported here, so that the other functions can be tested without mkdocs

    for place, name in OUTSIDE.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / place)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrites a page of the repository for the site."""
    site = {Path(file.abs_src_path): file.src_uri for file in files if file.abs_src_path}
    assert page.file.abs_src_path
    return rewrite(markdown, Path(page.file.abs_src_path), page.file.src_uri, site, config.repo_url)
