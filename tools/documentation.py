"""What the documentation site makes of pages that are written for the repository: the hooks of mkdocs.yml (``make docs``).

Pages that lie outside docs/ become pages of the site, and links between all of them lead there. A link to any other file of the
repository leads to it where ``repo_url`` says where the repository is (the variable ``REPOSITORY_URL``); else the file's path
stands there as text. A link to what is not there is left to mkdocs, which refuses it.
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
#: Pages outside docs/, and their names on the site.
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
#: A list or a table that follows a line of a paragraph; Python's Markdown wants an empty line between them.
FOLLOWS = re.compile(r"^((?![ \t]|[-*|#>]|\d+\. ).+\n)(?=[-*] |1\. |\|)", re.MULTILINE)


def slug(heading: str, separator: str = "-") -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def relative(target: str, page: str) -> str:
    """The way from one page of the site to another, as links in Markdown have it."""
    return "../" * page.count("/") + target


def resolve(label: str, link: str, page: Path, uri: str, site: dict[Path, str], repository: str | None) -> str:
    """A link of a page as the site has it.

    Args:
        label: what the link reads.
        link: where it leads, relative to the page's place in the repository.
        page: that place.
        uri: the page's name on the site.
        site: the names on the site, by place in the repository.
        repository: where the repository is on the web.
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
    """The text of a page of the repository as a page of the site; see `resolve` for the arguments."""
    parts, end = [], 0
    for block in [*FENCED.finditer(markdown), None]:
        prose = FOLLOWS.sub(r"\1\n", markdown[end : block.start() if block else None])
        parts.append(LINK.sub(lambda match: resolve(match[1], match[2], page, uri, site, repository), prose))
        if block:
            # Words behind the language say how a test runs the block.
            parts.append(re.sub(r"\A(```\w*).*", r"\1", block[0]))
            end = block.end()
    return "".join(parts)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Has anchors made as GitHub makes them, which the links of the pages are written for."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages outside docs/."""
    from mkdocs.structure.files import File  # tests of the rest do without mkdocs

    for place, name in OUTSIDE.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / place)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Makes a page of the site from a page of the repository."""
    site = {Path(file.abs_src_path): file.src_uri for file in files if file.abs_src_path}
    assert page.file.abs_src_path
    return rewrite(markdown, Path(page.file.abs_src_path), page.file.src_uri, site, config.repo_url)
