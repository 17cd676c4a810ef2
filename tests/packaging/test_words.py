"""The words of docs/glossary.md: refused words do not occur, and names of files of a layer and of central types are unique."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEARCHED = ("src", "shim", "build", "python", "tests", "tools", "benches", "docs", "examples")
SUFFIXES = {".rs", ".h", ".cpp", ".py", ".pyi", ".md", ".toml", ".supp"}
#: The refused words themselves, and records and names that other programs have written.
LEFT_OUT = ("docs/glossary.md", "tests/packaging/test_words.py", "benches/record")
#: Names of PyTorch and of the C library that contain a refused word.
FOREIGN = ("_pad_circular", "padding_mode='circular'", '"circular"', "pad_circular")
ONE_MEANING = ("Rows", "Body", "Table", "Worker", "Block")


def refused() -> list[str]:
    """Return the words of the last columns."""
    rows = re.findall(r"^\|.*\|([^|\n]*)\|$", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    return sorted({word for cell in rows for word in re.findall(r"`([^`]+)`", cell)})


def pattern(word: str) -> re.Pattern[str]:
    """Return what finds a word in names and in prose, over the end of a line of comments too."""
    between = r"(?:[ _]?|\n[ \t]*(?://[/!]?|#:?|\*)?[ \t]*)"
    return re.compile(rf"(?<![a-z]){between.join(map(re.escape, word.split()))}(?![a-z])", re.IGNORECASE)


def texts() -> dict[str, str]:
    """Return the text of each file that is searched."""
    files = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile", "build.rs", "Cargo.toml", "pyproject.toml")]
    files += [file for name in SEARCHED for file in (ROOT / name).rglob("*") if file.suffix in SUFFIXES]
    names = {file.relative_to(ROOT).as_posix(): file for file in files if file.is_file()}
    return {name: file.read_text() for name, file in names.items() if not name.startswith(LEFT_OUT)}


TEXTS = texts()


SOURCES = [file for file in (ROOT / "src").rglob("*") if file.is_file()]


def test_the_glossary_refuses_words() -> None:
    assert {"side by side", "places", "TwoWays", "lockstep", "resting"} <= set(refused())
    assert len(TEXTS) > 400


@pytest.mark.parametrize("word", refused())
def test_a_refused_word_is_absent(word: str) -> None:
    found = []
    for name, text in TEXTS.items():
        for foreign in FOREIGN:
            text = text.replace(foreign, " " * len(foreign))
        found += [f"{name}:{text.count(chr(10), 0, match.start()) + 1}" for match in pattern(word).finditer(text)]
        if pattern(word).search(Path(name).stem):
            found.append(name)
    assert found == []


def test_a_refused_word_is_found() -> None:
    for text in ("side by side", "SIDE_BY_SIDE", "side by\n    /// side", "SideBySide", "is side by side."):
        assert pattern("side by side").search(text), text
    assert not pattern("places").search("replaces")
    assert not pattern("brief").search("a debriefing")


def layer(file: Path) -> tuple[str, ...]:
    """Return the folder within which names are unique: one under src/, or the kernels, operators or tests of a family."""
    parts = file.relative_to(ROOT / "src").with_suffix("").parts
    return parts[:3] if parts[0] == "ops" else parts[:1]


def test_no_two_files_of_a_layer_have_one_name() -> None:
    names = Counter((layer(file), file.name) for file in SOURCES)
    assert [name for name, count in names.items() if count > 1] == []
    assert "mod.rs" not in {name for _, name in names}


@pytest.mark.parametrize("name", ONE_MEANING)
def test_a_central_type_has_one_meaning(name: str) -> None:
    definition = re.compile(rf"^\s*(?:pub(?:\([a-z ]+\))? )?(?:struct|enum|trait|type|union) {name}\b", re.MULTILINE)
    assert sum(len(definition.findall(file.read_text())) for file in SOURCES) <= 1


def test_headers_declare_functions_of_their_folder() -> None:
    shim = ROOT / "shim"
    declared = re.compile(r"^[A-Za-z][\w:<>,&* ]*?[ *&](\w+)\([^{};]*\)(?: const)?;", re.MULTILINE)
    misplaced = []
    for header in shim.rglob("*.h"):
        if header.name in ("rustdev.h", "rustdev_operators.h", "rustdev_completion.h"):
            continue
        beside = "".join(file.read_text() for file in header.parent.rglob("*.cpp"))
        for name in set(declared.findall(header.read_text())):
            body = re.compile(rf"^(?!return)[A-Za-z][\w:<>,&* ]*?[ *&:]{name}\([^;]*?\) ?(?:const )?\{{", re.MULTILINE)
            if not body.search(beside) and not body.search(header.read_text()):
                misplaced.append(f"{header.relative_to(shim)}: {name}")
    assert misplaced == []
