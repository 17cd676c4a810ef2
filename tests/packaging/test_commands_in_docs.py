"""The programs and commands of README.md, CONTRIBUTING.md and docs/ run or exist.

Each Python block runs as a separate program. Words after ``python`` in the head of a block, which readers do not see, say how:

    ```python given model x      after lines that define these names, see `GIVEN`
    ```python torchrun           in two processes of torch.distributed
    ```python pytest             as a test file, with the options of docs/ci.md
    ```python not run: REASON    not at all

A command in an ``sh`` block, or between backticks, runs if it is cheap and changes nothing. For other commands, their parts must
exist: targets and variables of the Makefile, programs and their options, modules, benches.
"""

import itertools
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest
from children import executable
from documentation import FENCED

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MAKEFILE = (ROOT / "Makefile").read_text()
LANGUAGES = {"sh", "python", "rust", "yaml", "text", "mermaid"}

#: What blocks of Python take as given, by name.
GIVEN = {
    "model": "model = torch.nn.Linear(64, 8).to('rustdev')",
    "x": "x = torch.randn(32, 64, device='rustdev')",
    "train_step": "train_step = lambda: torch.ones(4, device='rustdev').sum()",
    "test_step": "test_step = lambda: torch.ones(4, device='rustdev').sum()",
    "train_one_epoch": "train_one_epoch = lambda model, batches: [model(batch) for batch in batches]",
    "batches": "batches = [torch.randn(32, 64, device='rustdev')]",
    "batch": "batch = torch.randn(32, 64)",
    "data": "data = torch.randn(32, 64, device='rustdev')",
    "weight": "weight = torch.randn(8, 64, device='rustdev')",
    "tensor": "tensor = torch.zeros(4, device='rustdev')",
    "queue": "queue = torch.multiprocessing.get_context('spawn').SimpleQueue()",
}
#: Names that stand for something of the reader's.
READERS_OWN = {"train.py", "script.py", "program.py", "package.train", "torchtitan.train", "PATH", "../pytorch", "module"}
#: Commands that are run: they take a second and change nothing.
RUN = {"make", "make help", "python -m rustdev.info"}
#: Commands of other projects, whose arguments are not looked at.
OTHERS = {".", "apt", "cd", "clang-format", "export", "git", "maturin", "pip", "rustup"}


class Block(NamedTuple):
    """A fenced part of a page: where it begins, the words of its head and its text."""

    place: str
    head: str
    text: str


@cache
def blocks() -> list[Block]:
    """Return the fenced parts of all pages."""
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(f"{page.relative_to(ROOT).as_posix()}:{line}", match[1].strip(), match[2]))
    return found


def of_language(language: str) -> list[Block]:
    return [block for block in blocks() if block.head.partition(" ")[0] == language]


def environment() -> dict[str, str]:
    """Return the environment of a reader, who has set nothing."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("RUSTDEV_", "MAKE", "MFLAGS"))}


def run(command: list[str], directory: Path) -> str:
    """Return what a command prints, which ends well."""
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=directory, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_block_names_its_language() -> None:
    assert [block.place for block in blocks() if block.head.partition(" ")[0] not in LANGUAGES] == []
    assert len(of_language("python")) > 10
    assert len(of_language("sh")) > 3


@pytest.mark.slow
@pytest.mark.parametrize("block", of_language("python"), ids=lambda block: block.place)
def test_a_program_runs(block: Block, tmp_path: Path) -> None:
    mode, _, rest = block.head.removeprefix("python").strip().partition(" ")
    file = tmp_path / "test_program.py"
    file.write_text(block.text)
    if mode in ("", "given"):
        lines = ["import torch", *(GIVEN[name] for name in rest.split())]
        file.write_text("\n".join(lines) + "\n" + block.text)
        run([executable(), str(file)], tmp_path)
    elif mode == "torchrun":
        run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(file)], tmp_path)
    elif mode == "pytest":
        options = ["-p", "rustdev_pytest", "--rustdev-as-cuda", "--rustdev-devices=2"]
        assert "skipped" not in run([sys.executable, "-m", "pytest", *options, str(file)], tmp_path)
    else:
        assert block.head.startswith("python not run: "), block.head
        assert rest.removeprefix("run: "), "a program that is not run has a reason"


def without_accidents(report: str) -> str:
    """Return a report of the race detector without what differs from run to run: paths and addresses."""
    return re.sub(r"0x[0-9a-f]+", "0x", re.sub(r'"[^"]*\.py"', '"program.py"', report)).strip()


@pytest.mark.slow
def test_the_race_of_the_readme_has_the_report_of_the_readme(tmp_path: Path) -> None:
    (program,) = [block.text for block in of_language("python") if block.place.startswith("README") and "sanitizer()" in block.text]
    (report,) = [block.text for block in of_language("text") if block.place.startswith("README") and "race" in block.text]
    file = tmp_path / "program.py"
    file.write_text(program)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, env=environment(), timeout=120, check=False)
    assert done.stdout == "1000.0\n"
    assert without_accidents(done.stderr) == without_accidents(report)


def commands() -> list[str]:
    """Return the commands of all pages, each once."""
    found = []
    for block in of_language("sh"):
        lines = block.text.replace("\\\n", " ").splitlines()
        found += [part.strip() for line in lines for part in line.partition(" #")[0].split("&&")]
    span = re.compile(r"`((?:[A-Z_]+=\S+ )*(?:make|(?:make|python|cargo|torchrun|pytest) [^`\n]+))`")
    for page in PAGES:
        found += span.findall(FENCED.sub("", page.read_text()))
    return sorted({command for command in found if command and not command.startswith("#")})


def check_make(words: list[str]) -> None:
    for word in words:
        name, is_variable, _ = word.partition("=")
        pattern = rf"\b{name}\b" if is_variable else rf"^{re.escape(name)}:"
        assert re.search(pattern, MAKEFILE, re.MULTILINE), f"the Makefile has no {name}"


def check_cargo(words: list[str]) -> None:
    subcommand, *rest = [word for word in words if not word.startswith("+")]
    assert subcommand in ("test", "bench", "build", "clippy", "fmt", "check", "rustc", "publish")
    for option, name in itertools.pairwise(rest):
        assert option != "--bench" or (ROOT / f"benches/{name}.rs").is_file(), name


def check_program(path: str, words: list[str]) -> None:
    """Hold that a program is there and knows its options."""
    if path in READERS_OWN:
        return
    assert (ROOT / path).is_file(), path
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    assert [option for option in options if f'"{option}"' not in (ROOT / path).read_text()] == [], path


def check_pytest(words: list[str]) -> None:
    check_program("python/rustdev_pytest/__init__.py", [word for word in words if word.startswith("--rustdev")])
    files = [word.partition("::")[0] for word in words if word.startswith("tests/")]
    assert [file for file in files if not (ROOT / file).exists()] == []


def check_python(words: list[str]) -> None:
    match words:
        case ["-m", "pytest", *rest]:
            check_pytest(rest)
        case ["-m", "rustdev.as_cuda", *rest]:
            check_program("python/rustdev/as_cuda.py", rest[:1])
        case ["-m", name, *_]:
            assert name in READERS_OWN or find_spec(name), name
        case [path, *rest] if path != "-c":
            check_program(path, rest)


def check_torchrun(words: list[str]) -> None:
    is_module = "-m" in words
    check_python(words[words.index("-m") :] if is_module else [next(word for word in words if word.endswith(".py"))])


CHECKS = {
    "make": check_make, "cargo": check_cargo, "pytest": check_pytest, "python": check_python, "torchrun": check_torchrun,
}  # fmt: skip


@pytest.mark.parametrize("command", commands())
def test_a_command_is_there(command: str) -> None:
    if command in RUN:
        assert run([sys.executable if word == "python" else word for word in command.split()], ROOT)
        return
    words = shlex.split(command)
    while "=" in words[0]:
        name = words[0].partition("=")[0]
        assert not name.startswith("RUSTDEV_") or f"`{name}`" in (ROOT / "docs/environment.md").read_text(), name
        del words[0]
    if words[0] not in OTHERS:
        CHECKS[words[0]](words[1:])


def test_the_readme_says_what_the_check_of_every_change_runs() -> None:
    targets = set(re.findall(r"\bmake ([a-z-]+)", (ROOT / ".ci/run").read_text()))
    assert {"lint-fast", "test"} == targets
    assert [target for target in targets if f"`make {target}`" not in (ROOT / "README.md").read_text()] == []


def test_as_cuda_explains_itself(tmp_path: Path) -> None:
    said = run([executable(), "-m", "rustdev.as_cuda", "--help"], tmp_path)
    assert "--profile" in said
    assert "--force" in said


def test_what_is_not_there_is_found() -> None:
    for command in (
        "make demmo", "make demo TORHC=1", "cargo bench --bench none", "python examples/none.py", "python -m rustdev.none",
        "python examples/digits.py --none", "pytest tests/none", "torchrun examples/none.py", "RUSTDEV_NONE=1 python train.py",
    ):  # fmt: skip
        with pytest.raises(AssertionError):
            test_a_command_is_there(command)
