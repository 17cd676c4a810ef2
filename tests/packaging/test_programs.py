"""The list of ``make programs`` is complete."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from programs import listed  # noqa: E402


def test_the_list_is_whole() -> None:
    programs, releases = listed.programs(), listed.releases()
    assert len(programs) >= 24
    taken = {name for program in programs.values() for name in (program.name, *program.takes)}
    assert taken == releases.keys()
    for program in programs.values():
        assert program.way != "example" or all((listed.EXAMPLES / test).exists() for test in program.tests)
    used = {test for program in programs.values() if program.way == "example" for test in program.tests}
    assert used == {file.name for file in listed.EXAMPLES.glob("test_*.py")}


def test_releases_are_those_of_the_other_requirements() -> None:
    releases = listed.releases()
    libraries = listed.releases(ROOT / "requirements/libraries.txt")
    assert {name: release for name, release in libraries.items() if releases.get(name, release) != release} == {}
