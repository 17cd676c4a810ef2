"""The checks of `make release`: versions agree, and the bill of materials of a wheel is complete."""

from __future__ import annotations

import sys
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from release import bill, dependencies, disagreements  # noqa: E402

VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]["version"]
TREE = """0rustdev-module v0.1.0 (/home/somebody/rustdev/shim)|Apache-2.0
1pyo3 v0.30.1|MIT OR Apache-2.0
2libc v0.2.191|MIT/Apache-2.0
1rustdev v0.1.0 (/home/somebody/rustdev)|Apache-2.0
2half v2.7.1|MIT OR Apache-2.0
2pyo3 v0.30.1|MIT OR Apache-2.0 (*)
"""


def test_versions_agree() -> None:
    assert disagreements(ROOT, [f"v{VERSION}"], []) == []


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
