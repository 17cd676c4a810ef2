"""The workflows of .github: the targets that they call exist, and actions have a version. `make lint` checks their syntax."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github").rglob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text()


def targets(text: str) -> set[str]:
    """Return the targets that a file calls make with."""
    return {word for call in re.findall(r"\bmake ((?:[a-z-]+ ?)+)", text) for word in call.split()}


def test_there_are_workflows() -> None:
    assert {"check.yml", "nightly.yml", "release.yml", "site.yml", "test.yml"} <= {file.name for file in FILES}
    assert {"check", "docs", "lint-fast", "release", "test"} <= {target for file in FILES for target in targets(file.read_text())}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_targets_are_there(file: Path) -> None:
    text = re.sub(r"^\s*#.*$", "", file.read_text(), flags=re.MULTILINE)
    absent = [target for target in targets(text) if not re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)]
    assert absent == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_actions_and_images_have_a_version(file: Path) -> None:
    text = file.read_text()
    used = [action for action in re.findall(r"uses: (\S+)", text) if not action.startswith("./")]
    assert [action for action in used if not re.search(r"@v\d+\.\d+\.\d+$", action)] == []
    assert [image for image in re.findall(r"container: (\S.*)", text) if not re.search(r":\d{4}\.\d\d\.\d\d-\d$", image)] == []
    assert "-latest" not in text


def test_workflows_may_only_read_unless_a_job_says_more() -> None:
    for file in FILES:
        if file.parent.name == "workflows":
            assert re.search(r"^permissions:\n  contents: read$", file.read_text(), re.MULTILINE), file.name


def test_the_limit_that_the_night_lifts_is_there() -> None:
    (limit,) = re.findall(r"sed -i 's/(.*?)/", (ROOT / ".github/workflows/nightly.yml").read_text())
    assert len(re.findall(limit, (ROOT / "pyproject.toml").read_text())) == 2
