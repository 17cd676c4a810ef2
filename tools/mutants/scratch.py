"""The scratch copy of the tree, which contains all faults, and its build."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from .table import VARIABLE, Mutant, apply_all

ROOT = Path(__file__).resolve().parents[2]
DIRECTORY = ROOT / "target/mutants"
TREE = DIRECTORY / "tree"

#: Source of the module that selects a fault in the crate. The selection is a plain variable, so its load can be hoisted from loops.
_SELECTOR = f"""\
//! The fault that this process has.

static mut CHOSEN: u32 = 0;

#[used]
#[unsafe(link_section = ".init_array")]
static CHOOSE: extern "C" fn() = choose;

extern "C" fn choose() {{
    let chosen = std::env::var("{VARIABLE}").ok().and_then(|text| text.parse().ok());
    unsafe {{ CHOSEN = chosen.unwrap_or(0) }};
}}

#[inline(always)]
pub fn is(number: u32) -> bool {{
    unsafe {{ CHOSEN == number }}
}}
"""
_MODULE = "src/mutant.rs"


def _write(target: Path, content: bytes, source: Path | None = None) -> None:
    """Write a file unless it has this content, since newer files are recompiled. A copy gets the time stamp of its source."""
    if target.exists() and target.read_bytes() == content:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    if source is not None:
        shutil.copystat(source, target)


def _place(mutants: list[Mutant]) -> None:
    """Bring the files of the copy up to date, and remove files that are not in the tree."""
    changed = {mutant.file for mutant in mutants}
    listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True).splitlines()
    names = [name for name in listed if (ROOT / name).is_file()]
    for name in names:
        source, is_new = ROOT / name, not (TREE / name).exists()
        content = source.read_bytes()
        if name in changed:
            content = apply_all(mutants, name, content.decode()).encode()
        elif name == "src/lib.rs":
            content = content.replace(b"\nmod abi;", b"\nmod abi;\nmod mutant;", 1)
            content = content.replace(b"\n#![", b"\n#![allow(unused_parens)]\n#![", 1)
        _write(TREE / name, content, source if is_new and content == source.read_bytes() else None)
    _write(TREE / _MODULE, _SELECTOR.encode())
    known = {*names, _MODULE}
    for directory in ("src", "shim", "tests"):
        for path in (TREE / directory).rglob("*"):
            name = path.relative_to(TREE).as_posix()
            if path.is_file() and name not in known and path.suffix in (".rs", ".cpp", ".h", ".py"):
                path.unlink()


def environment(number: int = 0) -> dict[str, str]:
    """Return the environment of a process that runs the copy with a fault, by its number; 0 for none."""
    own = {"PYTHONPATH": str(TREE / "python"), VARIABLE: str(number), "TORCHINDUCTOR_CACHE_DIR": str(DIRECTORY / "inductor")}
    return {**os.environ, **own}


def make(mutants: list[Mutant], features: str) -> None:
    """Bring the copy up to date with all mutants, and build its module with these features of cargo."""
    _place(mutants)
    for name in ("release/.fingerprint", "release/build", "release/deps", "shim"):
        # The build products of the tree are a starting point, if the copy has none.
        source, target = ROOT / "target" / name, TREE / "target" / name
        if source.is_dir() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-a", "--reflink=auto", str(source), str(target)], check=True)
    variables = {**os.environ, "PYO3_PYTHON": sys.executable, "VIRTUAL_ENV": sys.prefix}
    command = ["cargo", "build", "--locked", "--release", "-p", "rustdev-module", "--features", features]
    subprocess.run(["tools/build.sh", *command], cwd=TREE, env=variables, check=True)
    package = TREE / "python/rustdev"
    shutil.copy(TREE / "target/release/lib_rustdev.so", package / "_rustdev.new")
    (package / "_rustdev.new").replace(package / "_rustdev.abi3.so")
    program = [sys.executable, "-c", "import rustdev; print(rustdev.__file__)"]
    found = subprocess.check_output(program, cwd=TREE, env=environment(), text=True).strip()
    if Path(found) != package / "__init__.py":
        sys.exit(f"mutants: the processes of the copy import {found}")
