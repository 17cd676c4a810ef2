"""The pytest plugin of a run: sets the default device, and records the outcome of each test.

A line is written before and after each test. If the process dies, the last line names the test that killed it, and the next process
continues after it. The plugin is also used without rustdev, for the results on PyTorch's CPU device.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .listed import has

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Environment variables: the file of results, the default device if any, the time limit of a test, patterns of excluded tests.
RESULTS, DEVICE, SECONDS, WITHOUT = (f"PROGRAMS_{name}" for name in ("RESULTS", "DEVICE", "SECONDS", "WITHOUT"))
#: Name of the line about the whole process.
SESSION = "session"


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
        config.pluginmanager.register(_Recorder(), "programs-recorder")


def use_device() -> None:
    """Set PyTorch's default device if the runner requests it. This is repeated, as a test may have changed it."""
    if os.environ.get(DEVICE):
        import torch

        torch.set_default_device(os.environ[DEVICE])


def allocated() -> int:
    """Return the number of allocations on the devices. If a test does not change it, the test has not used a device."""
    torch = sys.modules.get("torch")
    rustdev = getattr(torch, "rustdev", None)
    if torch is None or rustdev is None or not rustdev.is_initialized():
        return 0
    devices = range(rustdev.device_count())
    return sum(int(rustdev.memory_stats(device).get("allocation.all.allocated", 0)) for device in devices)


class _Recorder:
    def __init__(self) -> None:
        self.path = Path(os.environ[RESULTS])
        self.seconds = float(os.environ[SECONDS])
        self.without = json.loads(os.environ[WITHOUT])
        # pytest's capture replaces the descriptor. This copy writes to the log, also for a test that does not end.
        self.log = os.fdopen(os.dup(2), "w")
        self.before = 0
        use_device()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        done = read(self.path)
        items[:] = [item for item in items if item.nodeid not in done and not has(self.without, item.nodeid)]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.outcome == "failed":
            write(self.path, report.nodeid, "failed", text=_text(report), used=False)
        elif report.outcome == "skipped":
            write(self.path, report.nodeid, "skipped", text=_text(report), used=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        write(self.path, item.nodeid, "started")
        self.before = allocated()
        faulthandler.dump_traceback_later(self.seconds, exit=True, file=self.log)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        use_device()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            outcome = "xfailed" if report.skipped and hasattr(report, "wasxfail") else report.outcome
            text = "" if outcome == "passed" else _text(report)
            write(self.path, report.nodeid, outcome, seconds=round(report.duration, 3), text=text, used=allocated() != self.before)

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
    lines = (
        crash.message.splitlines() if crash else [line[1:].strip() for line in report.longreprtext.splitlines() if line[:1] == "E"]
    )
    return next((line for line in lines if line.strip()), "")
