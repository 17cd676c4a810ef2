"""The race detector: it finds accesses to the same memory without a happens-before relation, from the order of calls."""

import os
from dataclasses import dataclass
from types import TracebackType

import torch
from typing_extensions import Self

from . import _rustdev
from ._utils import _refuse_in_fork_child

__all__ = [
    "SanitizerAccess",
    "SanitizerReport",
    "SynchronizationError",
    "clear_sanitizer_reports",
    "disable_sanitizer",
    "enable_sanitizer",
    "sanitizer",
    "sanitizer_mode",
    "sanitizer_reports",
]


class SynchronizationError(RuntimeError):
    """A data race of the program. The message is the text of a :class:`SanitizerReport`."""


@dataclass(frozen=True)
class SanitizerAccess:
    """One of the two calls of a report.

    Attributes:
        operator: Name of the called operator, or ``"free"``, ``"wait_event"``, or ``"graph"`` for a replay.
        stream: Device index and stream id; None for the host.
        writes: True for a write, False for a read.
        frames: (file, line, function) of the program's Python frames, innermost first; empty if no Python code was running.
    """

    operator: str
    stream: tuple[int, int] | None
    writes: bool
    frames: list[tuple[str, int, str]]


@dataclass(frozen=True)
class SanitizerReport:
    """A finding of the race detector.

    Attributes:
        kind: ``"unordered"``, ``"other-device"``, ``"host-memory"``, ``"freed-in-use"`` or ``"event-not-recorded"``.
        first: Earlier call; None for ``"event-not-recorded"``.
        second: Later call, which completes the race.
        begin: Start address of the memory that both calls access.
        end: Address past the end of this memory.
        label: Label of the memory (:func:`torch.rustdev.set_label`), if any.
        shape: Dtype and sizes of the memory in the second call; None if unknown.
        remedy: How to fix the race.
        text: The whole report as text.
    """

    kind: str
    first: SanitizerAccess | None
    second: SanitizerAccess
    begin: int
    end: int
    label: str | None
    shape: str | None
    remedy: str
    text: str

    def __str__(self) -> str:
        return self.text


def enable_sanitizer(mode: str = "warn") -> None:
    """Enable the race detector in all threads.

    Args:
        mode: ``"warn"``: reports are printed to stderr, once for each pair of lines of the program. ``"error"``: the call that
            completes the race raises :class:`SynchronizationError` and does no work. A race found in a free is raised by the next
            checked call.

    Raises:
        ValueError: If ``mode`` is neither of these.
    """
    _refuse_in_fork_child()
    _rustdev.sanitizer_enable(mode)


def disable_sanitizer() -> None:
    """Disable the race detector. Its reports are kept."""
    _rustdev.sanitizer_disable()


def sanitizer_mode() -> str | None:
    """Return the mode of the race detector, ``"warn"`` or ``"error"``; None if it is disabled."""
    return _rustdev.sanitizer_mode()


def sanitizer_reports() -> list[SanitizerReport]:
    """Return all reports in the order of their detection. In ``"warn"`` mode there is one for each pair of lines of the program."""
    return [
        SanitizerReport(kind, first and SanitizerAccess(*first), SanitizerAccess(*second), *rest)
        for kind, first, second, *rest in _rustdev.sanitizer_findings()
    ]


def clear_sanitizer_reports() -> None:
    """Clear all reports. Pairs of lines that were reported before are reported again."""
    _rustdev.sanitizer_clear()


class sanitizer:  # noqa: N801 - a context manager, named as a function
    """Context manager that enables the race detector in all threads and restores the previous mode on exit.

    Args:
        mode: See :func:`enable_sanitizer`.

    Raises:
        ValueError: If ``mode`` is invalid.
        SynchronizationError: With ``mode="error"``, by the call that completes a race, or on exit for a race found in a free.
    """

    def __init__(self, mode: str = "warn") -> None:
        self._mode = mode
        self._before: list[str | None] = []

    def __enter__(self) -> Self:
        before = sanitizer_mode()
        enable_sanitizer(self._mode)
        self._before.append(before)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            if error is None:
                _rustdev.sanitizer_raise()
        finally:
            before = self._before.pop()
            if before is None:
                disable_sanitizer()
            else:
                enable_sanitizer(before)


def _begin() -> None:
    """Initialize the race detector, and enable it if ``RUSTDEV_SANITIZE`` is set."""
    libraries = [os.path.join(os.path.dirname(file), "") for file in (torch.__file__, __file__)]
    _rustdev.sanitizer_begin(SynchronizationError, libraries)
