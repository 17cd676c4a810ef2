"""The list of programs, ``programs.toml``, and the releases of their distributions, ``requirements/programs.txt``.

Each table of the list is a program, named after its distribution::

    [julius]
    what = "filters and resampling of sound"
    way = "default"                     # see `WAYS`; default: "example"
    tests = ["test"]                    # files and folders, as arguments of pytest; default: "tests", or the example of this name
    arguments = ["-k", "not cosine"]    # further arguments of pytest
    without = ["tests/test_x.py::*[8]"] # excluded tests
    left_out = "test_x takes files that it downloads"  # why tests are excluded
    takes = ["@hub", "einops"]          # all dependencies that torch and pytest do not bring, also indirect ones; @ names a group
    environment = {NAME = "value"}
    device_arguments = ["--device=cuda"]      # only for the run with the device
    device_environment = {DEVICE = "cuda"}    # only for the run with the device
    devices = 2                         # default: 1

    [[julius.failures]]
    tests = ["*::test_resample[*]"]     # patterns
    whose = "cuda"                      # see `WHOSE`
    reason = "one short sentence"
    flaky = true                        # default: false; whether the failure is intermittent
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import tomllib

HERE = Path(__file__).parent
EXAMPLES = HERE / "examples"
REQUIREMENTS = HERE.parents[1] / "requirements" / "programs.txt"

#: docs/programs.md says what they are.
WAYS, WHOSE = ("cuda", "default", "example"), ("program", "cuda", "gpu", "rustdev")


@dataclass(frozen=True)
class Failure:
    """Tests that fail, or pass without the device but are skipped or absent with it, with the reason."""

    tests: list[str]
    whose: str
    reason: str
    flaky: bool = False

    def __post_init__(self) -> None:
        if self.whose not in WHOSE or not self.reason.strip() or not self.tests:
            raise ValueError(f"failures take tests, a reason and one of {', '.join(WHOSE)}: {self}")


@dataclass(frozen=True)
class Program:
    """An entry of the list."""

    name: str
    what: str
    way: str
    tests: list[str]
    arguments: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    left_out: str = ""
    takes: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    device_arguments: list[str] = field(default_factory=list)
    device_environment: dict[str, str] = field(default_factory=dict)
    devices: int = 1
    failures: list[Failure] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.way not in WAYS:
            raise ValueError(f"{self.name}: {self.way!r} is none of the ways {', '.join(WAYS)}")

    def digest(self, releases: dict[str, str]) -> str:
        """Return a hash of the selection and the releases, for which a stored result is valid. Expected failures do not count."""
        described: dict[str, Any] = {"releases": [releases[name] for name in (self.name, *self.takes)]}
        described |= {name: value for name, value in asdict(self).items() if value and name not in ("what", "failures", "left_out")}
        if self.way == "example":
            described["text"] = [(EXAMPLES / test).read_text() for test in self.tests]
        return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]


def programs(path: Path = HERE / "programs.toml") -> dict[str, Program]:
    """Read the list."""
    tables = tomllib.loads(path.read_text())
    groups, read = tables.pop("groups", {}), {}
    for name, table in tables.items():
        failures = [Failure(**failure) for failure in table.pop("failures", [])]
        takes = [taken for taken in members(table.pop("takes", []), groups) if taken != name]
        table = {"way": "example"} | table
        table = {"tests": [f"test_{name}.py" if table["way"] == "example" else "tests"]} | table
        read[name] = Program(name=name, failures=failures, takes=takes, **table)
    return read


def members(names: list[str], groups: dict[str, list[str]]) -> list[str]:
    """Return distributions, with groups replaced by their members."""
    nested = [members(groups[name[1:]], groups) if name.startswith("@") else [name] for name in names]
    return list(dict.fromkeys(name for part in nested for name in part))


def releases(path: Path = REQUIREMENTS) -> dict[str, str]:
    """Read the pinned releases, by name."""
    lines = [line.strip() for line in path.read_text().splitlines()]
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))
