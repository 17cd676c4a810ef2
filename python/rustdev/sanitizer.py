"""The race detector: it finds work on the same memory that no wait orders, from the order of the program's calls."""

import os
from dataclasses import dataclass
from types import TracebackType
from typing import Any

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
    """The program uses memory without the order that it needs: the text is that of a :class:`SanitizerReport`."""


@dataclass(frozen=True)
class SanitizerAccess:
    """One of the two calls of a report.

    Attributes:
        operator: What was called: an operator, ``"free"``, ``"wait_event"``, or ``"graph"`` for a replay.
        stream: The device's index and the stream's id; None for the host.
        writes: Whether it writes, or only reads.
        frames: File, line and function of the program's Python frames, innermost first; empty where no Python was running.
    """

    operator: str
    stream: tuple[int, int] | None
    writes: bool
    frames: list[tuple[str, int, str]]


@dataclass(frozen=True)
class SanitizerReport:
    """A fault that the race detector has found.

    Attributes:
        kind: ``"unordered"``, ``"other-device"``, ``"host-memory"``, ``"freed-in-use"`` or ``"event-not-recorded"``.
        first: The earlier call; None for ``"event-not-recorded"``.
        second: The call that completes the fault.
        begin: The first address of the memory that both use.
        end: The address behind it.
        label: What :func:`torch.rustdev.set_label` named the memory, if anything.
        shape: Dtype and sizes, as the second call sees the memory; None where it is not known.
        remedy: What mends it.
        text: All of this as text.
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
    """Look for races from now on, in all threads.

    Args:
        mode: ``"warn"``: the text of a report goes to stderr, once for each pair of lines of the program. ``"error"``: the call
            that completes the race raises :class:`SynchronizationError`, and does not do its work; what is found in a free is
            raised by the next call that is checked.

    Raises:
        ValueError: ``mode`` is neither.
    """
    _refuse_in_fork_child()
    _rustdev.sanitizer_enable(mode)


def disable_sanitizer() -> None:
    """Look for no more races. Reports stay."""
    _rustdev.sanitizer_disable()


def sanitizer_mode() -> str | None:
    """Return ``"warn"`` or ``"error"``, or None where no races are looked for."""
    return _rustdev.sanitizer_mode()


def sanitizer_reports() -> list[SanitizerReport]:
    """Return what was found so far, in that order: in the mode ``"warn"`` once for each pair of lines of the program."""
    return [_report(found) for found in _rustdev.sanitizer_findings()]


def clear_sanitizer_reports() -> None:
    """Forget the reports; the same lines are reported again."""
    _rustdev.sanitizer_clear()


def _report(found: dict[str, Any]) -> SanitizerReport:
    first = None if found["first"] is None else SanitizerAccess(**found["first"])
    return SanitizerReport(**{**found, "first": first, "second": SanitizerAccess(**found["second"])})


class sanitizer:  # noqa: N801 - a context manager, named as a function
    """Context manager in which races are looked for, in all threads.

    Args:
        mode: As for :func:`enable_sanitizer`.

    Raises:
        ValueError: ``mode`` is none.
        SynchronizationError: With ``mode="error"``, at the call that completes a race, or at the end for what was found in a free.
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
    """Do what ``RUSTDEV_SANITIZE`` asks for."""
    libraries = [os.path.join(os.path.dirname(file), "") for file in (torch.__file__, __file__)]
    _rustdev.sanitizer_begin(SynchronizationError, libraries)
