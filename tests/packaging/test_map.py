"""tests/README.md names every test file, and no file that does not exist."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
MAP = (TESTS / "README.md").read_text()
NAMED = re.findall(r"`((?:\w+/)*\w+\.(?:py|rs|cpp))`", MAP)


def files() -> set[str]:
    """Return the files that hold tests or what these share, by their paths; pytest finds settings by itself."""
    found = [file for suffix in ("py", "rs", "cpp") for file in TESTS.rglob(f"*.{suffix}")]
    return {file.relative_to(TESTS).as_posix() for file in found if file.name != "conftest.py"}


def test_every_file_is_in_the_map() -> None:
    assert sorted(files() - set(NAMED)) == []


def test_every_name_in_the_map_is_a_file() -> None:
    assert sorted(set(NAMED) - files()) == []


def test_no_file_is_named_twice() -> None:
    assert sorted(name for name in set(NAMED) if NAMED.count(name) > 1) == []
