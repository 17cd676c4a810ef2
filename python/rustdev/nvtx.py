"""User ranges and marks in profiler traces, with the names of ``torch.cuda.nvtx``, made by ``torch.profiler.record_function``."""

import contextlib
import itertools
import threading
from collections.abc import Iterator
from typing import Any

from torch.profiler import record_function

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


class _Pushed(threading.local):
    """Stack of the ranges that ``range_push`` opened on this thread."""

    def __init__(self) -> None:
        self.ranges: list[record_function] = []


_pushed = _Pushed()
_started: dict[int, record_function] = {}
_handles = itertools.count(1)


def _open(msg: str) -> record_function:
    if not isinstance(msg, str):
        raise TypeError(f"expected a text, got {type(msg).__name__}")
    opened = record_function(msg)
    opened.__enter__()
    return opened


def range_push(msg: str) -> int:
    """Push a range onto the stack of nested ranges of the calling thread.

    Args:
        msg: Name of the range in traces.

    Returns:
        Zero-based depth of the range.
    """
    _pushed.ranges.append(_open(msg))
    return len(_pushed.ranges) - 1


def range_pop() -> int:
    """Pop the innermost range from the stack of nested ranges of the calling thread.

    Returns:
        Zero-based depth of the range; -1 if none was open.
    """
    if _pushed.ranges:
        _pushed.ranges.pop().__exit__(None, None, None)
        return len(_pushed.ranges)
    return -1


def range_start(msg: str) -> int:
    """Start a range that any thread may end, independent of the nesting of other ranges.

    Args:
        msg: Name of the range in traces.

    Returns:
        Handle of the range, for ``range_end``.
    """
    opened = _open(msg)
    handle = next(_handles)
    _started[handle] = opened
    return handle


def range_end(range_id: int) -> None:
    """End a range.

    Args:
        range_id: Handle returned by ``range_start``.

    Raises:
        ValueError: If the handle is unknown, or the range has ended.
    """
    opened = _started.pop(range_id, None)
    if opened is None:
        raise ValueError(f"no range is open under the handle {range_id!r}")
    opened.__exit__(None, None, None)


def mark(msg: str) -> None:
    """Mark an instantaneous event, by an empty range.

    Args:
        msg: Name of the event in traces.
    """
    _open(msg).__exit__(None, None, None)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:  # noqa: A001 - torch.cuda's name
    """Context manager or decorator that pushes a range on entry and pops it on exit.

    Args:
        msg: Name of the range in traces, formatted by ``msg.format(*args, **kwargs)``.
        args: Arguments of ``msg.format``.
        kwargs: Keyword arguments of ``msg.format``.
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
