"""Analysis of the memory history of a device: its peaks, what they consist of, and its memory over the run."""

import os
from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from rustdev.waits import _directories

from .watch import Watch

#: What memory is for, in the order of the report.
CATEGORIES = ("parameters", "gradients", "optimizer_states", "activations", "communication", "temporaries")
#: The largest number of points of a timeline.
POINTS = 500
#: Parts of the names of files whose allocations are buffers of collectives.
COMMUNICATION = ("torch/distributed/fsdp/", "torch/distributed/distributed_c10d.py", "torch/distributed/_functional_collectives.py")
#: Files by which operators are called.
CALLERS = ("torch/_ops.py", "torch/_library/", "torch/utils/_contextlib.py", "torch/_compile.py", "torch/_dynamo/eval_frame.py")


class Allocation:
    """A piece of memory, from its allocation to its free.

    Args:
        event: The allocation in the memory history.
        watch: Notes on the run.
    """

    def __init__(self, event: dict[str, Any], watch: Watch) -> None:
        self.size = event["size"]
        self.label = ""
        self.phase, self.module = watch.phase_of(event), watch.module_at(event["time_us"])
        self.is_communication = _is_communication(event["frames"])
        self.is_freed_by_module = False

    @property
    def category(self) -> str:
        """Category of the memory. Activations are what modules allocate in their forward and do not free in it."""
        if self.label:
            return self.label
        if self.is_communication:
            return "communication"
        is_activation = self.module and self.phase != "optimizer" and not self.is_freed_by_module
        return "activations" if is_activation else "temporaries"


class Change(NamedTuple):
    """An event of the memory history, with the memory after it in bytes.

    Attributes:
        event: The event.
        allocation: What the event allocates or frees; None for other events.
        allocated: Memory of tensors.
        reserved: Memory of segments.
        unused: Memory of segments without tensors.
    """

    event: dict[str, Any]
    allocation: Allocation | None
    allocated: int
    reserved: int
    unused: int

    @property
    def fragmentation(self) -> int:
        """Free memory of segments that have tensors."""
        return self.reserved - self.allocated - self.unused


class _Segments:
    """The segments of a device and how much of each is allocated."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._sizes: dict[int, int] = {}
        self._used: dict[int, int] = {}
        self.reserved = self.unused = 0

    def add(self, address: int, size: int) -> None:
        """Add a segment."""
        insort(self._begins, address)
        self._sizes[address], self._used[address] = size, 0
        self.reserved += size
        self.unused += size

    def remove(self, address: int) -> None:
        """Remove a segment, which is unused."""
        if address in self._sizes:
            self._begins.remove(address)
            size = self._sizes.pop(address)
            self.reserved -= size
            self.unused -= size

    def use(self, address: int, size: int) -> None:
        """Count an allocation, or with a negative size a free."""
        position = bisect_right(self._begins, address) - 1
        if position < 0:
            return
        segment = self._begins[position]
        was_unused = self._used[segment] == 0
        self._used[segment] += size
        if was_unused != (self._used[segment] == 0):
            self.unused += -self._sizes[segment] if was_unused else self._sizes[segment]


def _is_communication(frames: Sequence[dict[str, Any]]) -> bool:
    """Return whether the innermost Python function, apart from callers of operators, belongs to collectives."""
    inner = next((frame["filename"] for frame in frames if not any(caller in frame["filename"] for caller in CALLERS)), "")
    return any(part in inner for part in COMMUNICATION)


def _line(frames: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return file, line and function of the innermost frame of the user's code."""
    library = tuple(path for paths in _directories() for path in paths)
    for frame in frames:
        if not frame["filename"].startswith(library) and "site-packages" not in frame["filename"]:
            return {"file": os.path.relpath(frame["filename"]), "line": frame["line"], "function": frame["name"]}
    return None


def _moment(event: dict[str, Any], watch: Watch) -> dict[str, Any]:
    """Describe where a program is at an event."""
    phase, module, step = watch.phase_of(event), watch.module_at(event["time_us"]), watch.step_at(event["time_us"])
    return {"step": step, "phase": phase, "module": module or None, "line": _line(event["frames"])}


def _labelled(events: Sequence[dict[str, Any]], watch: Watch) -> Iterator[tuple[dict[str, Any], Allocation | None]]:
    """Yield the events, each with its allocation; allocations know their labels after the last event."""
    live: dict[int, Allocation] = {}
    labels = iter(sorted(watch.labels, key=lambda label: label[0]))
    label = next(labels, None)
    for event in [*events, None]:
        while label is not None and (event is None or label[0] < event["time_us"]):
            if label[1] in live:
                live[label[1]].label = label[2]
            label = next(labels, None)
        if event is None:
            return
        allocation = None
        if event["action"] == "alloc":
            allocation = live[event["addr"]] = Allocation(event, watch)
        elif event["action"] == "free_requested" and event["addr"] in live:
            allocation = live.pop(event["addr"])
            allocation.is_freed_by_module = watch.module_at(event["time_us"]) != ""
        yield event, allocation


def _changes(events: Sequence[dict[str, Any]], watch: Watch) -> list[Change]:
    """Return the events with the memory after each."""
    segments, allocated, changes = _Segments(), 0, []
    for event, allocation in _labelled(events, watch):
        if event["action"] == "segment_alloc":
            segments.add(event["addr"], event["size"])
        elif event["action"] == "segment_free":
            segments.remove(event["addr"])
        elif allocation is not None:
            size = allocation.size if event["action"] == "alloc" else -allocation.size
            allocated += size
            segments.use(event["addr"], size)
        changes.append(Change(event, allocation, allocated, segments.reserved, segments.unused))
    return changes


def _live(changes: Sequence[Change]) -> list[Allocation]:
    """Return what is allocated after the changes."""
    live: dict[int, Allocation] = {}
    for change in changes:
        if change.allocation is not None and change.event["action"] == "alloc":
            live[change.event["addr"]] = change.allocation
        elif change.allocation is not None:
            live.pop(change.event["addr"], None)
    return list(live.values())


def _state(change: Change, watch: Watch) -> dict[str, Any]:
    """Describe a peak: where the program is, and the memory that is there."""
    return {
        "at": _moment(change.event, watch),
        "allocated": change.allocated,
        "reserved": change.reserved,
        "fragmentation": change.fragmentation,
        "unused_segments": change.unused,
    }


def _timeline(changes: Sequence[Change], watch: Watch) -> list[dict[str, Any]]:
    """Return the memory over the run, at no more than ``POINTS`` of its events: the highest ones of equal parts of the run."""
    count = len(changes)
    begins = sorted({count * part // POINTS for part in range(POINTS)})
    chosen = {max(range(begin, end), key=lambda index: changes[index].allocated) for begin, end in pairwise([*begins, count])}
    parts, points, phase = dict.fromkeys(CATEGORIES, 0), [], "forward"
    step: int | None = None
    for index, change in enumerate(changes):
        before, step = step, watch.step_at(change.event["time_us"])
        is_new = change.event["action"] == "alloc"
        if change.allocation is not None:
            # A free has no stack: its phase is that of the allocation before it in the step.
            phase = change.allocation.phase if is_new else phase if step == before else "forward"
            parts[change.allocation.category] += change.allocation.size if is_new else -change.allocation.size
        if index in chosen:
            points.append({"event": index, "phase": phase, "step": step, "reserved": change.reserved, "parts": dict(parts)})
    return points


def examine(events: Sequence[dict[str, Any]], watch: Watch) -> dict[str, Any]:
    """Find the peaks of a device's memory, and what they consist of.

    Args:
        events: The memory history of the device, with at least one event.
        watch: Notes on the run.

    Returns:
        The part of the report on this device. Memory is in bytes.
    """
    changes = _changes(events, watch)
    at_peak = max(range(len(changes)), key=lambda index: (changes[index].allocated, index))
    at_reserved = max(range(len(changes)), key=lambda index: (changes[index].reserved, -index))
    parts = dict.fromkeys(CATEGORIES, 0)
    activations: dict[str, int] = {}
    for allocation in _live(changes[: at_peak + 1]):
        parts[allocation.category] += allocation.size
        if allocation.category == "activations":
            activations[allocation.module] = activations.get(allocation.module, 0) + allocation.size
    return {
        "peak_allocated": changes[at_peak].allocated,
        "peak_reserved": changes[at_reserved].reserved,
        "peak": {
            **_state(changes[at_peak], watch),
            "parts": parts,
            "activations_by_module": dict(sorted(activations.items(), key=lambda item: -item[1])),
        },
        "reserved_peak": _state(changes[at_reserved], watch),
        "shortages": [{"requested": event["size"], **_moment(event, watch)} for event, *_ in changes if event["action"] == "oom"],
        "streams": len({event["stream"] for event, allocation, *_ in changes if allocation is not None}),
        "events": len(changes),
        "timeline": _timeline(changes, watch),
    }
