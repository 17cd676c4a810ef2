"""``torch.rustdev.wait_report``: where a program waits for the device, and its copies between host and devices.

``python -m rustdev.trace script.py`` runs a program with such a report.
"""

import contextlib
import linecache
import os
import sysconfig
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch

from . import _rustdev, profiler
from ._name import NAME
from ._utils import _refuse_in_fork_child

__all__ = ["Wait", "WaitReport", "wait_report"]

_ADVICE = {
    "item": "keep the value on the device and read it every N steps",
    "result": "the host needs the size or the answer: use torch.where or nonzero_static, or give the size (output_size, minlength)",
    "print": "print every N steps, or print a value that is on the host already",
    "fallback": "the CPU computes it: move it out of the loop, or use an operator that the device has",
    "device": "leave it out, or wait for one stream or event: what reads a value waits by itself",
    "stream": "let the stream that needs the result wait: stream.wait_stream(other)",
    "event": "let the stream that needs the result wait: stream.wait_event(event)",
}
#: By the number that the runtime gives, ``RD_WAIT_*`` of ``rustdev.h``.
_KINDS = ("item", "result", "fallback", "copy", "device", "stream", "event")
#: Key: (copy is to the device, host memory is pinned).
_COPY_ADVICE = {
    (True, True): "pass non_blocking=True",
    (True, False): "pin the memory and pass non_blocking=True, or make the tensor on the device",
    (False, True): "pass non_blocking=True and wait for an event before the host reads it",
    (False, False): "copy into pinned memory with non_blocking=True and wait for an event before the host reads it",
}

_Line = tuple[str, int, str]


@dataclass(frozen=True)
class Wait:
    """All waits of one kind, or all copies, at one line of the program."""

    #: ``"item"`` (a value is read), ``"result"`` (an operator reads a size or a condition), ``"print"``, ``"copy"``,
    #: ``"fallback"``, ``"device"``, ``"stream"`` or ``"event"``.
    kind: str
    #: The call that waited: ``"item()"``, ``"Memcpy HtoD (Pageable -> Device)"``, ``"aten::geqrf"``, ``"synchronize()"``.
    name: str
    #: File of the innermost frame of user code on the thread; None if there is no such frame.
    filename: str | None
    line: int
    function: str
    #: Source text of the line.
    source: str
    #: Innermost line of another library that the user code called; without user code, the innermost line; else empty.
    library: str
    #: Number of waits.
    count: int
    #: Number of waits that found nothing to wait for.
    idle: int
    #: Total time that the host was blocked.
    seconds: float
    #: Total bytes that copies wrote.
    bytes: int
    #: False for copies that the host did not wait for.
    blocking: bool
    #: How to avoid the wait; empty if ``blocking`` is False.
    advice: str

    @property
    def where(self) -> str:
        """File and line, such as ``train.py:7``; ``"no Python frame"`` if there is no frame of user code."""
        return "no Python frame" if self.filename is None else f"{self.filename}:{self.line}"

    @property
    def title(self) -> str:
        """Name and location of the wait."""
        return f"{self.name}, {self.where}" if self.filename is None else f"{self.name} at {self.where}"


class _Key(NamedTuple):
    """Key by which waits are grouped into one row of a report."""

    kind: str
    name: str
    user: _Line | None
    library: _Line | None
    blocking: bool
    advice: str


class _Span(NamedTuple):
    """One wait. Times are nanoseconds since the epoch."""

    begin: int
    end: int
    thread: int
    wait: Wait


def _copy_name(to_device: bool, pinned: bool) -> str:
    """The name of the copy in profilers."""
    host = "Pinned" if pinned else "Pageable"
    return f"Memcpy HtoD ({host} -> Device)" if to_device else f"Memcpy DtoH (Device -> {host})"


def _key(
    number: int, name: str, to_device: bool, pinned: bool, waits: bool, prints: bool, user: _Line | None, library: _Line | None
) -> _Key:
    kind = "print" if prints else _KINDS[number]
    if kind == "copy":
        advice = _COPY_ADVICE[to_device, pinned] if waits else ""
        return _Key(kind, _copy_name(to_device, pinned), user, library, waits, advice)
    name = "printing a tensor" if prints else name.partition(" (")[0]
    return _Key(kind, name, user, library, waits, _ADVICE[kind])


def _directories() -> tuple[list[str], list[str]]:
    """Return the directories of torch and of this package, and the directories of Python."""
    ours = [os.path.dirname(os.path.abspath(file)) + os.sep for file in (torch.__file__, __file__)]
    python = {sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")}
    return [*ours, "<eval_with_key>"], [*python, "<frozen "]


class WaitReport:
    """The waits of the host for the devices, and the copies between them, during a :func:`wait_report`."""

    def __init__(self) -> None:
        self._directory = os.getcwd()
        self._begin = time.time_ns()
        self._end: int | None = None
        self._first_sums = [sums for _, sums in _rustdev.waits_sums()]
        self._first_span = len(_rustdev.waits_spans(0))
        self._rows: list[tuple[_Key, tuple[int, ...]]] = []
        self._raw_spans: list[tuple[int, int, int, int]] = []
        self._threads: dict[int, str] = {}
        #: Tasks that ran on the devices, if requested and no other trace was active; else None.
        self.tasks: list[profiler.Task] | None = None

    def _read(self) -> None:
        """Update the report from the runtime's counters, unless it has ended."""
        if self._end is not None:
            return
        self._raw_spans = _rustdev.waits_spans(self._first_span)
        rows = _rustdev.waits_sums()
        first = self._first_sums + [(0, 0, 0, 0)] * (len(rows) - len(self._first_sums))
        self._rows = [
            (_key(*key), tuple(now - before for now, before in zip(sums, earlier, strict=True)))
            for (key, sums), earlier in zip(rows, first, strict=True)
        ]
        self._threads |= {thread.native_id: thread.name for thread in threading.enumerate() if thread.native_id is not None}

    def _finish(self) -> None:
        self._read()
        self._end = time.time_ns()

    def _shown(self, file: str) -> str:
        """The file name to show: relative to the working directory at the start of the report if the file is below it."""
        relative = os.path.relpath(os.path.join(self._directory, file), self._directory)
        return file if relative.startswith(os.pardir) or file.startswith("<") else relative

    def _wait(self, key: _Key, sums: tuple[int, ...]) -> Wait:
        file, line, function = key.user or ("", 0, "")
        library = f"{key.library[0]}:{key.library[1]} in {key.library[2]}" if key.library else ""
        count, idle, nanoseconds, copied = sums
        return Wait(
            key.kind,
            key.name,
            self._shown(file) if key.user else None,
            line,
            function,
            linecache.getline(os.path.join(self._directory, file), line).strip(),
            library,
            count,
            idle,
            nanoseconds / 1e9,
            copied,
            key.blocking,
            key.advice,
        )

    def _all(self) -> dict[_Key, Wait]:
        """All rows, most expensive first."""
        self._read()
        sums: dict[_Key, tuple[int, ...]] = {}
        for key, more in self._rows:
            sums[key] = tuple(map(sum, zip(sums.get(key, (0, 0, 0, 0)), more, strict=True)))
        waits = {key: self._wait(key, total) for key, total in sums.items() if total[0]}
        return dict(sorted(waits.items(), key=lambda item: (-item[1].seconds, -item[1].count)))

    @property
    def waits(self) -> list[Wait]:
        """The waits of the host, most expensive first, including blocking copies."""
        return [wait for wait in self._all().values() if wait.blocking]

    @property
    def copies(self) -> list[Wait]:
        """The copies between the host and the devices, blocking or not."""
        return [wait for wait in self._all().values() if wait.kind == "copy"]

    @property
    def seconds(self) -> float:
        """Duration of the report in seconds."""
        return ((self._end or time.time_ns()) - self._begin) / 1e9

    def _spans(self) -> list[_Span]:
        """The individual waits, up to the limit of recorded spans."""
        waits = self._all()
        rows = [waits.get(key) for key, _ in self._rows]
        spans = [(begin, end, thread, rows[row]) for begin, end, thread, row in self._raw_spans]
        return [_Span(begin, end, thread, wait) for begin, end, thread, wait in spans if wait is not None]

    def table(self) -> str:
        """Return the report as a text table."""
        waits = self.waits
        quiet = [copy for copy in self.copies if not copy.blocking]
        parts = [_summary(waits, self.seconds)]
        if waits:
            parts.append(_table(waits))
        if quiet:
            parts += ["Copies that the host did not wait for:", _table(quiet)]
        return "\n".join(parts)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report as a self-contained HTML page: the table, and a timeline of the waits and of the streams.

        Args:
            path: File to write.

        Raises:
            OSError: If the file cannot be written.
        """
        from ._waits_page import _page

        page = _page(self)
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)


def _summary(waits: list[Wait], seconds: float) -> str:
    if not waits:
        return f"{NAME}: the host waited for nothing in {seconds:.3f} s"
    count, idle = sum(wait.count for wait in waits), sum(wait.idle for wait in waits)
    stood = sum(wait.seconds for wait in waits)
    return f"{NAME}: waits of the host: {count}, {stood:.3f} s of {seconds:.3f} s; {idle} of them found the stream idle"


def _bytes(count: int) -> str:
    """Return a number of bytes with a binary unit, in four significant digits."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024  # type: ignore[assignment]
    return f"{count:.4g} GiB"


def _table(waits: list[Wait]) -> str:
    lines = [f"{'seconds':>10} {'count':>8} {'idle':>8} {'bytes':>10}  what, and where"]
    for wait in waits:
        copied = _bytes(wait.bytes) if wait.kind == "copy" else ""
        lines.append(f"{wait.seconds:10.4f} {wait.count:8} {wait.idle:8} {copied:>10}  {wait.title}")
        lines += [f"{'':41}{text}" for text in (wait.source, wait.library and f"in {wait.library}", wait.advice) if text]
    return "\n".join(lines)


@contextlib.contextmanager
def wait_report(*, tasks: bool = False) -> Iterator[WaitReport]:
    """Context manager that reports the waits of the host for the devices, and the copies between them, in all threads.

    Reports may be nested; each covers its own block. Without a report, a wait costs no more than reading a flag.

    Args:
        tasks: Whether to also record the device tasks, for the timeline of :meth:`WaitReport.save_html`.

    Yields:
        The report, which can be read at any time.

    Raises:
        RuntimeError: If this process is a forked child.
    """
    _refuse_in_fork_child()
    _rustdev.waits_start(*_directories())
    report = WaitReport()
    traces = contextlib.ExitStack()
    if tasks:
        with contextlib.suppress(RuntimeError):  # raised if another trace is active
            report.tasks = traces.enter_context(profiler.profile())
    try:
        yield report
    finally:
        try:
            traces.close()
        finally:
            report._finish()
            _rustdev.waits_stop()
