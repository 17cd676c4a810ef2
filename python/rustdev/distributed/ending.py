"""Exit of a process that has groups: submitted operations are waited for, unless the process ends by an error."""

import atexit
import functools
import multiprocessing
import multiprocessing.util
import sys
from collections.abc import Callable

from .. import _rustdev

_has_failed = False


def _note_failure() -> bool:
    """Return whether the process ends by an error. The answer is stored, since later exit handlers cannot see the error."""
    global _has_failed
    error = sys.exc_info()[1]
    is_failure = error.code not in (None, 0) if isinstance(error, SystemExit) else error is not None
    _has_failed = _has_failed or is_failure or getattr(sys, "last_value", None) is not None
    return _has_failed


@functools.cache
def finish_at_exit(finish: Callable[[bool], None]) -> None:
    """Register a function to call at process exit.

    Args:
        finish: Called with True if the process ends without an error, else with False.
    """

    def end() -> None:
        if not _rustdev.is_fork_child():
            finish(not _note_failure())

    if multiprocessing.parent_process() is not None:
        # Finalize functions of multiprocessing run while an error propagates, and in children that skip ``atexit`` functions.
        multiprocessing.util.Finalize(None, end, exitpriority=0)
    atexit.register(end)
