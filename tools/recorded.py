"""Runs of pytest that go on after a test that kills its process.

`run` starts pytest with this module as a plugin, which appends a line of JSON to a file before and after each test. If the process
dies, the last line names the test that killed it, and the next process continues after it. The plugin works without rustdev, too.
"""

import faulthandler
import json
import os
import resource
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import processes
import pytest

TOOLS = Path(__file__).parent
BAD = ("failed", "crashed")
#: Variable with the plugin's options, in JSON.
VARIABLE = "RECORDED"
#: Exit statuses of pytest: all passed, some failed, nothing to run.
USUAL = (0, 1, 5)
#: Name of the line about a whole process.
SESSION = "session"

Lines = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Options:
    """Options of the plugin."""

    results: str  # file of the lines
    shard: int = 0  # number of the part of the tests that runs
    shards: int = 1
    without: list[str] = field(default_factory=list)  # patterns of tests that do not run
    seconds: float = 0  # time limit of a test; 0 for none
    device: str = ""  # PyTorch's default device; empty for PyTorch's own


def has(patterns: list[str], test: str) -> bool:
    """Return whether a test matches one of the patterns. Brackets in patterns are literal."""
    return any(fnmatchcase(test, pattern.replace("[", "[[]")) for pattern in patterns)


def read(path: Path) -> Lines:
    """Return the last line of each test."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {line["test"]: line for line in map(json.loads, lines)}


def write(path: Path, test: str, outcome: str, **more: Any) -> None:
    """Append a line. The file is closed, so the line is not lost if the test kills the process."""
    with path.open("a") as file:
        file.write(json.dumps({"test": test, "outcome": outcome, **more}) + "\n")


def run(
    arguments: list[str],
    options: Options,
    directory: Path,
    environment: dict[str, str],
    *,
    whole: float = 1e9,
    own_group: bool = False,
) -> Lines:
    """Run tests without a result, with a new process after each test that kills its process, and return the last line of each.

    The output goes to a log beside the results. Names of tests are relative to the directory. All processes together take ``whole``
    seconds at most, each of them an hour.
    """
    results = Path(options.results)
    log = results.with_suffix(".log")
    path = os.pathsep.join([*filter(None, [environment.get("PYTHONPATH")]), str(TOOLS)])
    environment = {**environment, "PYTHONPATH": path, VARIABLE: json.dumps(asdict(options))}
    quiet = ["-q", "-c", os.devnull, "--rootdir", str(directory), "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-p", "recorded", *quiet, *arguments]
    ends = time.monotonic() + whole
    with log.open("wb") as output:
        while True:
            limit = max(1.0, min(3600, ends - time.monotonic()))
            status = processes.run(
                command, limit, own_group=own_group, cwd=directory, env=environment, stdout=output, stderr=output
            )
            ended = "" if status in USUAL else processes.told(status, limit)
            unfinished = [test for test, line in read(results).items() if line["outcome"] == "started"]
            for test in unfinished:
                write(results, test, "crashed", text=ended or f"no end within {options.seconds:g} s", used=False)
            if not ended and not unfinished:
                break
            if not unfinished or time.monotonic() > ends:
                write(results, arguments[-1], "crashed", text=f"{ended} outside of a test: see {log.name}", used=False)
                break
    return read(results)


def pytest_configure(config: pytest.Config) -> None:
    """Register the recorder if `run` requests it."""
    if VARIABLE in os.environ:
        # No core files: a run may have hundreds of crashes, and core files include reserved address ranges.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        config.pluginmanager.register(_Recorder(Options(**json.loads(os.environ[VARIABLE]))), "recorder")


def _allocated() -> int:
    """Return the number of allocations on the devices. If a test does not change it, the test has not used a device."""
    rustdev = getattr(sys.modules.get("torch"), "rustdev", None)
    if rustdev is None or not rustdev.is_initialized():
        return 0
    devices = range(rustdev.device_count())
    return sum(int(rustdev.memory_stats(device).get("allocation.all.allocated", 0)) for device in devices)


class _Recorder:
    def __init__(self, options: Options) -> None:
        self.options, self.path = options, Path(options.results)
        # pytest's capture replaces the descriptor. This copy writes to the log, also for a test that does not end.
        self.log = os.fdopen(os.dup(2), "w")
        self.before = 0
        self.pytest_runtest_setup()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        done, options = read(self.path), self.options
        mine = [item for item in items if zlib.crc32(item.nodeid.encode()) % options.shards == options.shard]
        items[:] = [item for item in mine if item.nodeid not in done and not has(options.without, item.nodeid)]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.outcome != "passed":
            write(self.path, report.nodeid, report.outcome, text=_text(report), used=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        write(self.path, item.nodeid, "started")
        self.before = _allocated()
        if self.options.seconds:
            faulthandler.dump_traceback_later(self.options.seconds, exit=True, file=self.log)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Set the default device, before each test: the one before may have changed it."""
        if self.options.device:
            import torch

            torch.set_default_device(self.options.device)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            outcome = "xfailed" if report.skipped and hasattr(report, "wasxfail") else report.outcome
            used = _allocated() != self.before
            write(self.path, report.nodeid, outcome, seconds=round(report.duration, 3), text=_text(report), used=used)

    def pytest_sessionfinish(self) -> None:
        rustdev = sys.modules.get("rustdev")
        served = sorted(name for name, stat in rustdev.fallback_stats().items() if stat.calls) if rustdev else []
        write(self.path, SESSION, SESSION, fallbacks=served)


def _text(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the line of a report with the error, or the reason of a skip or an expected failure."""
    if getattr(report, "wasxfail", ""):
        return str(report.wasxfail).removeprefix("reason: ")
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    errors = [line[1:].strip() for line in report.longreprtext.splitlines() if line[:1] == "E"]
    return next((line for line in (crash.message.splitlines() if crash else errors) if line.strip()), "")
