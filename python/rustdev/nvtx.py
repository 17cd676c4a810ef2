"""Ranges and marks of the user in traces, by the names of ``torch.cuda.nvtx``: those of ``torch.profiler.record_function``."""

import contextlib
import itertools
import threading
from collections.abc import Iterator
from typing import Any

from torch.profiler import record_function

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


class _Pushed(threading.local):
    """The ranges of this thread that ``range_push`` opened."""

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
    """Open a range on this thread, inside those that are open there.

    Args:
        msg: Its name in traces.

    Returns:
        How many ranges are open around it.
    """
    _pushed.ranges.append(_open(msg))
    return len(_pushed.ranges) - 1


def range_pop() -> int:
    """Close the range that this thread opened last.

    Returns:
        How many ranges are open around it; -1 if none was open.
    """
    if _pushed.ranges:
        _pushed.ranges.pop().__exit__(None, None, None)
        return len(_pushed.ranges)
    return -1


def range_start(msg: str) -> int:
    """Open a range that any thread may close, at any time.

    Args:
        msg: Its name in traces.

    Returns:
        Its handle, for ``range_end``.
    """
    opened = _open(msg)
    handle = next(_handles)
    _started[handle] = opened
    return handle


def range_end(range_id: int) -> None:
    """Close a range.

    Args:
        range_id: What ``range_start`` returned.

    Raises:
        ValueError: There is no such range, or it is closed.
    """
    opened = _started.pop(range_id, None)
    if opened is None:
        raise ValueError(f"no range is open under the handle {range_id!r}")
    opened.__exit__(None, None, None)


def mark(msg: str) -> None:
    """Mark this moment, by a range that is closed at once.

    Args:
        msg: Its name in traces.
    """
    _open(msg).__exit__(None, None, None)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:  # noqa: A001 - torch.cuda's name
    """Open a range for the time of a ``with`` statement or, as a decorator, of a function's calls.

    Args:
        msg: Its name in traces, completed by ``msg.format(*args, **kwargs)``.
        args: See there.
        kwargs: See there.
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
