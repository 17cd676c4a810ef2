"""The checks of `make release`: versions agree, and the bill of materials of a wheel is complete."""

import shutil
from pathlib import Path

import pytest
import tomllib
from release import Crate, bill, dependencies, disagreements, sections

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]["version"]
TREE = """0rustdev-module v0.1.0 (/home/somebody/rustdev/shim)|Apache-2.0
1pyo3 v0.30.1|MIT OR Apache-2.0
2libc v0.2.191|MIT/Apache-2.0
1rustdev v0.1.0 (/home/somebody/rustdev)|Apache-2.0
2half v2.7.1|MIT OR Apache-2.0
2pyo3 v0.30.1|MIT OR Apache-2.0 (*)
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files that say a version."""
    (tmp_path / "shim").mkdir()
    for name in ("Cargo.toml", "Cargo.lock", "pyproject.toml", "shim/Cargo.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_versions_agree() -> None:
    assert disagreements(ROOT, [f"v{VERSION}"], []) == []


@pytest.mark.parametrize("file", ["Cargo.toml", "pyproject.toml", "shim/Cargo.toml"])
def test_a_wrong_version_is_refused(copy: Path, file: str) -> None:
    text = (copy / file).read_text()
    (copy / file).write_text(text.replace(f'version = "{VERSION}"', 'version = "9.9.9"', 1))
    found = disagreements(copy, [], [])
    assert found
    assert all("9.9.9" in line for line in found)


def test_a_version_without_a_heading_is_refused(copy: Path) -> None:
    text = (copy / "CHANGELOG.md").read_text()
    (copy / "CHANGELOG.md").write_text(text.replace(f"## [{VERSION}]", "## [0.0.9]"))
    assert disagreements(copy, [], []) == [f"CHANGELOG.md's newest heading says 0.0.9, Cargo.toml {VERSION}"]


def test_tags_name_versions_of_the_changelog(copy: Path) -> None:
    assert disagreements(copy, ["v9.9.9"], []) == ["tag v9.9.9 has no heading in CHANGELOG.md"]


def test_the_tag_of_a_commit_is_its_version_and_all_its_changes_are_released(copy: Path) -> None:
    (copy / "CHANGELOG.md").write_text(f"## [Unreleased]\n\n## [{VERSION}]\n- a change\n")
    assert disagreements(copy, [f"v{VERSION}"], [f"v{VERSION}"]) == []
    assert disagreements(copy, [], ["v9.9.9"]) == [f"tag v9.9.9 names this commit, Cargo.toml says {VERSION}"]
    (copy / "CHANGELOG.md").write_text(f"## [Unreleased]\n- a change\n\n## [{VERSION}]\n- a change\n")
    assert len(disagreements(copy, [f"v{VERSION}"], [f"v{VERSION}"])) == 1


def test_sections_of_the_changelog() -> None:
    assert sections("# Changelog\n\n## [Unreleased]\n- new\n\n## [0.1.0] - 2026-11-29\n- old\n") == {
        "Unreleased": "\n- new\n\n",
        "0.1.0": "\n- old\n",
    }


def test_the_tree_of_crates() -> None:
    module = Crate("rustdev-module", "0.1.0", "Apache-2.0")
    rustdev = Crate("rustdev", "0.1.0", "Apache-2.0")
    pyo3, half = (Crate(name, version, "MIT OR Apache-2.0") for name, version in (("pyo3", "0.30.1"), ("half", "2.7.1")))
    libc = Crate("libc", "0.2.191", "MIT OR Apache-2.0")
    assert dependencies(TREE) == {module: {pyo3, rustdev}, pyo3: {libc}, libc: set(), rustdev: {half, pyo3}, half: set()}


def test_the_bill_names_what_the_wheel_has_and_what_it_takes() -> None:
    project = {"name": "rustdev", "version": "0.1.0", "license": "Apache-2.0", "dependencies": ["torch>=2.13"]}
    made = bill(dependencies(TREE), {("libc", "0.2.191"): "ab12"}, "1.95.0", project)
    parts = {part["name"]: part for part in made["components"]}
    assert list(parts) == ["half", "libc", "pyo3", "rustdev", "std", "torch"]
    assert parts["libc"]["hashes"] == [{"alg": "SHA-256", "content": "ab12"}]
    assert parts["libc"]["licenses"] == [{"expression": "MIT OR Apache-2.0"}]
    uses = {entry["ref"]: entry["dependsOn"] for entry in made["dependencies"]}
    assert uses["pkg:pypi/rustdev@0.1.0"] == ["pkg:cargo/pyo3@0.30.1", "pkg:cargo/rustdev@0.1.0", "pkg:pypi/torch", "rust-std"]
    assert uses["pkg:cargo/pyo3@0.30.1"] == ["pkg:cargo/libc@0.2.191"]
    assert "somebody" not in str(made)
