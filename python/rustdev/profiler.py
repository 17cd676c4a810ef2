"""Recording of the tasks that run on the devices, with the names of ``torch.cuda.profiler``.

No tool outside the process is needed: ``stop`` returns the tasks. ``torch.profiler.profile`` shows these tasks and more.
"""

import contextlib
import threading
import warnings
from collections.abc import Iterator
from typing import NamedTuple

from . import _rustdev
from ._name import NAME
from ._utils import _refuse_in_fork_child

__all__ = ["Task", "get_limit", "profile", "set_limit", "start", "stop"]


class Task(NamedTuple):
    """A device task. Times are nanoseconds since the epoch, as of ``time.time_ns``."""

    #: Name of the kernel, or the kind of copy or fill: ``"Memcpy HtoD (Pinned -> Device)"``, ``"Memset (Device)"``.
    name: str
    #: ``"rust"``, ``"aten"``, ``"compiled"``, ``"custom"``, ``"fallback"``, ``"host"`` or ``"sleep"``.
    tier: str
    device: int
    stream: int
    #: Native id of the submitting thread, as of ``threading.get_native_id``.
    thread: int
    #: Begin and end of the call that submitted the task.
    submission: tuple[int, int]
    #: Begin and end of the task; (0, 0) if it did not run.
    run: tuple[int, int]
    #: Bytes that a copy or a fill writes; 0 for other tasks.
    bytes: int
    #: Number of tasks in its fused loop, itself included; the time of the loop is divided among them.
    fused: int
    #: ``"done"``, ``"failed"``, ``"not run"`` (skipped behind a failure) or ``"running"`` (at the end of the trace).
    outcome: str


_lock = threading.Lock()
#: Number of the trace that ``start`` began; 0 if none is active.
_number = 0


def start() -> None:
    """Start recording the tasks of all devices.

    Raises:
        RuntimeError: If recording is already active, by this function or by ``torch.profiler``, or this process is a forked child.
    """
    global _number
    _refuse_in_fork_child()
    with _lock:
        _number = _rustdev.trace_start()


def stop() -> list[Task]:
    """Wait for the tasks recorded since ``start``, and stop recording.

    A failure of a task is not raised here but by the next synchronizing call.

    Warns:
        UserWarning: If there were more tasks than ``get_limit()``; the first tasks are returned.

    Returns:
        The tasks in the order of submission.

    Raises:
        RuntimeError: If ``start`` was not called, or this process is a forked child.
    """
    global _number
    _refuse_in_fork_child()
    with _lock:
        number, _number = _number, 0
    found = _rustdev.trace_stop(number) if number else None
    if found is None:
        raise RuntimeError(f"torch.{NAME}.profiler.start() was not called")
    tasks, dropped = found
    if dropped:
        warnings.warn(f"the first {len(tasks)} tasks were recorded, {dropped} more were not: see set_limit", stacklevel=2)
    return [Task(*task) for task in tasks]


@contextlib.contextmanager
def profile() -> Iterator[list[Task]]:
    """Context manager that records the tasks of all devices.

    Yields:
        A list that is filled with the tasks on exit.
    """
    tasks: list[Task] = []
    start()
    try:
        yield tasks
    finally:
        tasks += stop()


def get_limit() -> int:
    """Return the maximum number of tasks of a trace. The limit applies to ``torch.profiler``, too."""
    return _rustdev.trace_limit()


def set_limit(tasks: int) -> None:
    """Set the maximum number of tasks of the next traces. Further tasks are counted, not recorded.

    Args:
        tasks: From 1 to 2^30, rounded up to a multiple of 1024. Each task takes 125 bytes, and 6 KB more in ``torch.profiler``.

    Raises:
        ValueError: If ``tasks`` is outside of this range.
    """
    if not 1 <= tasks <= 1 << 30:
        raise ValueError(f"a trace has room for 1 to {1 << 30} tasks, not {tasks}")
    _rustdev.trace_set_limit(tasks)
