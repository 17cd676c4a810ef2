"""The end of a process that has groups: what it has submitted is waited for, unless it ends by an error."""

import atexit
import functools
import multiprocessing
import multiprocessing.util
import sys
from collections.abc import Callable

from .. import _rustdev

__all__ = ["finish_at_exit"]

_has_failed = False


def _note_failure() -> bool:
    """Return whether the process ends by an error, and remember it: what is called later at the end does not see it."""
    global _has_failed
    error = sys.exc_info()[1]
    is_failure = error.code not in (None, 0) if isinstance(error, SystemExit) else error is not None
    _has_failed = _has_failed or is_failure or getattr(sys, "last_value", None) is not None
    return _has_failed


@functools.cache
def finish_at_exit(finish: Callable[[bool], None]) -> None:
    """Have a function called when the process ends.

    Args:
        finish: It is told whether the process ends well.
    """

    def end() -> None:
        if not _rustdev.is_fork_child():
            finish(not _note_failure())

    if multiprocessing.parent_process() is not None:
        # Called while an error is on its way, and where the process does not call what is registered with ``atexit``.
        multiprocessing.util.Finalize(None, end, exitpriority=0)
    atexit.register(end)
