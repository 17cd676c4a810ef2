"""Where a program waits for the device without saying so, and what it copies: ``torch.rustdev.wait_report``.

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
#: By whether the copy is to the device, and whether the host's memory is pinned.
_COPY_ADVICE = {
    (True, True): "pass non_blocking=True",
    (True, False): "pin the memory and pass non_blocking=True, or make the tensor on the device",
    (False, True): "pass non_blocking=True and wait for an event before the host reads it",
    (False, False): "copy into pinned memory with non_blocking=True and wait for an event before the host reads it",
}

_Line = tuple[str, int, str]


@dataclass(frozen=True)
class Wait:
    """The waits of one kind, or the copies, at one line of the program."""

    #: ``"item"`` (a value that is read), ``"result"`` (a size or an answer that an operator reads), ``"print"``, ``"copy"``,
    #: ``"fallback"``, ``"device"``, ``"stream"`` or ``"event"``.
    kind: str
    #: What waited: ``"item()"``, ``"Memcpy HtoD (Pageable -> Device)"``, ``"aten::geqrf"``, ``"synchronize()"``.
    name: str
    #: The innermost file of the user's code on the thread; None where there is no such frame.
    filename: str | None
    line: int
    function: str
    #: The text of the line.
    source: str
    #: The innermost line of another library above it, or where there is no frame of the user's the innermost line; else empty.
    library: str
    #: How often.
    count: int
    #: How many of these found nothing to wait for.
    idle: int
    #: How long the host stood still, all of them together.
    seconds: float
    #: What copies wrote, all of them together.
    bytes: int
    #: False: copies that the host did not wait for.
    blocking: bool
    #: How to avoid it; empty for copies that the host did not wait for.
    advice: str

    @property
    def where(self) -> str:
        """The file and the line, as ``train.py:7``; ``"no Python frame"`` where there is none of the user's."""
        return "no Python frame" if self.filename is None else f"{self.filename}:{self.line}"

    @property
    def title(self) -> str:
        """What waited, and where."""
        return f"{self.name}, {self.where}" if self.filename is None else f"{self.name} at {self.where}"


class _Key(NamedTuple):
    """What waits have in common that are one row of a report."""

    kind: str
    name: str
    user: _Line | None
    library: _Line | None
    blocking: bool
    advice: str


class _Span(NamedTuple):
    """One wait. Times are nanoseconds since 1970."""

    begin: int
    end: int
    thread: int
    wait: Wait


def _copy_name(to_device: bool, pinned: bool) -> str:
    """The name that profilers give such a copy."""
    host = "Pinned" if pinned else "Pageable"
    return f"Memcpy HtoD ({host} -> Device)" if to_device else f"Memcpy DtoH (Device -> {host})"


def _key(
    kind: str, name: str, to_device: bool, pinned: bool, waits: bool, prints: bool, user: _Line | None, library: _Line | None
) -> _Key:
    kind = "print" if prints else kind
    if kind == "copy":
        advice = _COPY_ADVICE[to_device, pinned] if waits else ""
        return _Key(kind, _copy_name(to_device, pinned), user, library, waits, advice)
    name = "printing a tensor" if prints else name.partition(" (")[0]
    return _Key(kind, name, user, library, waits, _ADVICE[kind])


def _directories() -> tuple[list[str], list[str]]:
    """Return those of torch and of this package, and those of Python."""
    ours = [os.path.dirname(os.path.abspath(file)) + os.sep for file in (torch.__file__, __file__)]
    python = {sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")}
    return [*ours, "<eval_with_key>"], [*python, "<frozen "]


class WaitReport:
    """The waits of the host for the devices, and the copies between them, while the report is taken; see :func:`wait_report`."""

    def __init__(self) -> None:
        self._directory = os.getcwd()
        self._begin = time.time_ns()
        self._end: int | None = None
        self._first_sums = [sums for _, sums in _rustdev.waits_sums()]
        self._first_span = len(_rustdev.waits_spans(0))
        self._rows: list[tuple[_Key, tuple[int, ...]]] = []
        self._raw_spans: list[tuple[int, int, int, int]] = []
        self._threads: dict[int, str] = {}
        #: What ran on the devices, where the report was asked for it and no other trace was taken; else None.
        self.tasks: list[profiler.Task] | None = None

    def _read(self) -> None:
        """Take over what has been counted so far."""
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
        """A file's name as the user knows it: relative where it is below the directory that the report began in."""
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
        """Each row, the most expensive first."""
        self._read()
        sums: dict[_Key, tuple[int, ...]] = {}
        for key, more in self._rows:
            sums[key] = tuple(map(sum, zip(sums.get(key, (0, 0, 0, 0)), more, strict=True)))
        waits = {key: self._wait(key, total) for key, total in sums.items() if total[0]}
        return dict(sorted(waits.items(), key=lambda item: (-item[1].seconds, -item[1].count)))

    @property
    def waits(self) -> list[Wait]:
        """What the host waited for, the most expensive first; copies that it waited for are among them."""
        return [wait for wait in self._all().values() if wait.blocking]

    @property
    def copies(self) -> list[Wait]:
        """The copies between the host and the devices, whether the host waited for them or not."""
        return [wait for wait in self._all().values() if wait.kind == "copy"]

    @property
    def seconds(self) -> float:
        """How long the report was taken."""
        return ((self._end or time.time_ns()) - self._begin) / 1e9

    def _spans(self) -> list[_Span]:
        """Each wait by itself, as far as there was room for it."""
        waits = self._all()
        rows = [waits.get(key) for key, _ in self._rows]
        spans = [(begin, end, thread, rows[row]) for begin, end, thread, row in self._raw_spans]
        return [_Span(begin, end, thread, wait) for begin, end, thread, wait in spans if wait is not None]

    def table(self) -> str:
        """Return the report as text, for a terminal."""
        waits = self.waits
        quiet = [copy for copy in self.copies if not copy.blocking]
        parts = [_summary(waits, self.seconds)]
        if waits:
            parts.append(_table(waits))
        if quiet:
            parts += ["Copies that the host did not wait for:", _table(quiet)]
        return "\n".join(parts)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report as one page that needs no other file: the table, and a timeline of the waits and of the streams.

        Args:
            path: The file.

        Raises:
            OSError: It cannot be written.
        """
        from ._waits_page import _page

        page = _page(self)
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)


def _summary(waits: list[Wait], seconds: float) -> str:
    if not waits:
        return f"rustdev: the host waited for nothing in {seconds:.3f} s"
    count, idle = sum(wait.count for wait in waits), sum(wait.idle for wait in waits)
    stood = sum(wait.seconds for wait in waits)
    return f"rustdev: waits of the host: {count}, {stood:.3f} s of {seconds:.3f} s; {idle} of them found the stream idle"


def _bytes(count: int) -> str:
    """A number of bytes, short."""
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
    """Report the waits of the host for the devices, and the copies between them, in a ``with`` statement, of all threads.

    Reports may be nested; each has what happened in it. Without one, a wait costs no more than the reading of a flag.

    Args:
        tasks: Whether to record what ran on the devices too, for the timeline of :meth:`WaitReport.save_html`.

    Yields:
        The report, which can be read at any time.

    Raises:
        RuntimeError: This is a forked child.
    """
    _refuse_in_fork_child()
    _rustdev.waits_start(*_directories())
    report = WaitReport()
    traces = contextlib.ExitStack()
    if tasks:
        with contextlib.suppress(RuntimeError):  # another trace is being taken
            report.tasks = traces.enter_context(profiler.profile())
    try:
        yield report
    finally:
        try:
            traces.close()
        finally:
            report._finish()
            _rustdev.waits_stop()
