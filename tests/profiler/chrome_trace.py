"""Access to Chrome traces, for the profiler's tests."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile

DEVICE = 20  # torch.autograd.DeviceType.PrivateUse1
EVERYTHING = (ProfilerActivity.CPU, ProfilerActivity.PrivateUse1)
#: The categories of what stands on the lines of streams.
ON_STREAMS = ("kernel", "gpu_memcpy", "gpu_memset")


@dataclass
class Trace:
    """An exported trace, and the profiler that it came from."""

    profiler: profile
    events: list[dict[str, Any]]

    def rows(self, *categories: str) -> list[dict[str, Any]]:
        """The events of some categories in the order of time; without any, those of streams."""
        found = [event for event in self.events if event.get("cat") in (categories or ON_STREAMS) and event["ph"] == "X"]
        return sorted(found, key=lambda event: event["ts"])

    def row(self, name: str, *categories: str) -> dict[str, Any]:
        """The only event of that name in some categories."""
        (row,) = [row for row in self.rows(*categories) if row["name"] == name]
        return row

    def names(self, *categories: str) -> list[str]:
        """The names of these rows."""
        return [row["name"] for row in self.rows(*categories)]

    def operator(self, row: dict[str, Any]) -> str:
        """The name of the operator or range that a row is linked with."""
        (name,) = [
            event["name"]
            for event in self.rows("cpu_op", "user_annotation")
            if event["args"]["External id"] == row["args"]["External id"]
        ]
        return str(name)

    def arrows(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """The calls and the rows of streams that arrows lead from and to."""
        ends = {event["id"]: event for event in self.events if event.get("cat") == "ac2g" and event["ph"] == "f"}
        starts = [event for event in self.events if event.get("cat") == "ac2g" and event["ph"] == "s"]
        return [
            (self._at(start, self.rows("privateuse1_runtime")), self._at(ends[start["id"]], self.rows()))
            for start in starts
            if start["id"] in ends
        ]

    @staticmethod
    def _at(end: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
        (row,) = [row for row in rows if all(row[key] == end[key] for key in ("pid", "tid", "ts"))]
        return row


Take = Callable[..., Trace]


def exported(profiler: profile, file: Path) -> Trace:
    """A trace, by way of the file."""
    profiler.export_chrome_trace(str(file))
    return Trace(profiler, json.loads(file.read_text())["traceEvents"])
