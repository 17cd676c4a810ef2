"""All dependencies are pinned and have permitted licenses."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LICENSES = {"Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "ISC", "MIT", "MIT-0"}
LICENSES |= {"CC0-1.0", "Unicode-3.0", "Unlicense", "Zlib"}
# Only runs in tests, as a program that writes a header: nothing of it is in the module.
EXCEPTIONS = {"cbindgen": "MPL-2.0"}


@pytest.mark.parametrize("file", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda file: file.stem)
def test_requirements_are_pinned(file: Path) -> None:
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    assert lines
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][0-9.]*", line) for line in lines)


@pytest.mark.skipif(shutil.which("cargo") is None, reason="reading the lock file takes cargo")
def test_crates_are_locked_and_free() -> None:
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--all-features"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=120).stdout)
    for crate in metadata["packages"]:
        if crate["source"] is None:
            assert crate["name"] in ("rustdev", "rustdev-module", "slow_device")
            continue
        assert crate["source"].startswith("registry+https://github.com/rust-lang/crates.io-index"), crate["name"]
        alternatives = re.split(r" OR |\s*/\s*", (crate["license"] or "").replace("(", "").replace(")", ""))
        accepted = any(set(alternative.split(" AND ")) <= LICENSES for alternative in alternatives)
        assert accepted or EXCEPTIONS.get(crate["name"]) == crate["license"], f"{crate['name']}: {crate['license']}"
