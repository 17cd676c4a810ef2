"""The pytest plugin of a run: selects the tests of a shard, deselects excluded tests, and records outcomes.

A line is written before and after each test. If the process dies, the last line names the test that killed it, and the next process
continues after it.
"""

import json
import os
import resource
import zlib
from pathlib import Path
from typing import Any

import pytest

from .exclusions import Exclusions

#: Environment variables: the file of results, the shard ("0/4"), the file of exclusions.
RESULTS, SHARD, EXCLUSIONS = "UPSTREAM_RESULTS", "UPSTREAM_SHARD", "UPSTREAM_EXCLUSIONS"


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Return the last line of each test."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {line["test"]: line for line in map(json.loads, lines)}


def write(path: Path, test: str, outcome: str, **more: Any) -> None:
    """Append a line. The file is closed, so the line is not lost if the test kills the process."""
    with path.open("a") as file:
        file.write(json.dumps({"test": test, "outcome": outcome, **more}) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """Register the recorder if the runner requests it."""
    if RESULTS in os.environ:
        # No core files: a run may have hundreds of crashes, and core files include reserved address ranges.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        config.pluginmanager.register(_Recorder(), "upstream-recorder")


class _Recorder:
    def __init__(self) -> None:
        self.path = Path(os.environ[RESULTS])
        self.exclusions = Exclusions(Path(os.environ[EXCLUSIONS]))
        self.shard, self.shards = map(int, os.environ[SHARD].split("/"))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        done = read(self.path)
        mine = [item for item in items if zlib.crc32(item.nodeid.encode()) % self.shards == self.shard and item.nodeid not in done]
        items[:] = [item for item in mine if not self._excluded(item)]

    def _excluded(self, item: pytest.Item) -> bool:
        found = self.exclusions.find(item.nodeid)
        if found:
            write(self.path, item.nodeid, "excluded", entry=found[0], text=found[1])
        return found is not None

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        write(self.path, nodeid, "started")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            write(self.path, report.nodeid, self._outcome(report), seconds=report.duration, text=_text(report))

    @staticmethod
    def _outcome(report: pytest.TestReport) -> str:
        return "xfailed" if report.skipped and hasattr(report, "wasxfail") else report.outcome


def _text(report: pytest.TestReport) -> str:
    """Return the last line of the error, or the reason of a skip or an expected failure."""
    if getattr(report, "wasxfail", ""):
        return report.wasxfail.removeprefix("reason: ")
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    lines = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
    return lines[0].removeprefix("E").strip() if lines else ""
