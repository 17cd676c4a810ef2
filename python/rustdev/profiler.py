"""What ran on the devices and when, without PyTorch's profiler, which shows the same and more: ``torch.profiler.profile``.

The names are those of ``torch.cuda.profiler``; they need no tool outside the process, and ``stop`` returns the tasks.
"""

import contextlib
import threading
import warnings
from collections.abc import Iterator
from typing import NamedTuple

from . import _rustdev
from ._utils import _refuse_in_fork_child

__all__ = ["Task", "get_limit", "profile", "set_limit", "start", "stop"]


class Task(NamedTuple):
    """A task of a device. Times are nanoseconds since 1970, of the clock of ``time.time_ns``."""

    #: That of the kernel, or what a copy or a fill does: ``"Memcpy HtoD (Pinned -> Device)"``, ``"Memset (Device)"``.
    name: str
    #: ``"rust"``, ``"aten"``, ``"compiled"``, ``"custom"``, ``"fallback"``, ``"host"`` or ``"sleep"``.
    tier: str
    device: int
    stream: int
    #: The submitting thread, as ``threading.get_native_id`` numbers it.
    thread: int
    #: When the call that submitted it began and ended.
    submission: tuple[int, int]
    #: When it began and ended; (0, 0) where it did not run.
    run: tuple[int, int]
    #: What a copy or a fill writes; else 0.
    bytes: int
    #: How many tasks were fused with it, itself included: each has its share of their time.
    fused: int
    #: ``"done"``, ``"failed"``, ``"not run"`` (skipped behind a failure) or ``"running"`` (at the end of the trace).
    outcome: str


_lock = threading.Lock()
#: The number of the trace that ``start`` began; 0 for none.
_number = 0


def start() -> None:
    """Begin to record the tasks of all devices.

    Raises:
        RuntimeError: They are being recorded already, by this function or by ``torch.profiler``; or this is a forked child.
    """
    global _number
    _refuse_in_fork_child()
    with _lock:
        _number = _rustdev.trace_start()


def stop() -> list[Task]:
    """Wait for the tasks recorded since ``start``, and stop recording. Failures stay for the next synchronising call.

    Warns:
        UserWarning: There were more tasks than ``get_limit()``; the first ones are returned.

    Returns:
        The tasks, in the order of their submission.

    Raises:
        RuntimeError: ``start`` was not called; or this is a forked child.
    """
    global _number
    _refuse_in_fork_child()
    with _lock:
        number, _number = _number, 0
    found = _rustdev.trace_stop(number) if number else None
    if found is None:
        raise RuntimeError("torch.rustdev.profiler.start() was not called")
    tasks, dropped = found
    if dropped:
        warnings.warn(f"the first {len(tasks)} tasks were recorded, {dropped} more were not: see set_limit", stacklevel=2)
    return [Task(*task) for task in tasks]


@contextlib.contextmanager
def profile() -> Iterator[list[Task]]:
    """Record the tasks of all devices in a ``with`` statement.

    Yields:
        A list that holds the tasks at the end.
    """
    tasks: list[Task] = []
    start()
    try:
        yield tasks
    finally:
        tasks += stop()


def get_limit() -> int:
    """Return how many tasks a trace has room for, ``torch.profiler``'s likewise."""
    return _rustdev.trace_limit()


def set_limit(tasks: int) -> None:
    """Set how many tasks the next traces have room for. What comes after those is counted, not kept.

    Args:
        tasks: From 1 to 2^30, rounded up to a multiple of 1024; each takes 125 bytes, and 6 KB more in ``torch.profiler``.

    Raises:
        ValueError: It is another number.
    """
    if not 1 <= tasks <= 1 << 30:
        raise ValueError(f"a trace has room for 1 to {1 << 30} tasks, not {tasks}")
    _rustdev.trace_set_limit(tasks)
