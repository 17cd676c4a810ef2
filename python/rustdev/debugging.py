"""Debugging modes: faults that are injected, and unlikely orders of tasks."""

from collections.abc import Iterator
from contextlib import contextmanager

from . import _rustdev

__all__ = ["inject_faults", "schedule"]


@contextmanager
def inject_faults(faults: str) -> Iterator[None]:
    """Let faults happen inside of a ``with`` block, in all threads; occasions are counted from its beginning.

    What was in force before, such as the list of ``RUSTDEV_FAULTS``, is so again afterwards, with its own counts. A task that was
    submitted inside has its fault even if it runs later.

    Args:
        faults: A list as in ``RUSTDEV_FAULTS``, for example ``"oom:3"`` or ``"kernel:mm:2,copy:10"``; ``""`` for none.

    Raises:
        ValueError: A part of the list is malformed; the text names it.
        RuntimeError: This is a forked child of a process that had used the device.
    """
    number = _rustdev.faults_push(faults)
    try:
        yield
    finally:
        _rustdev.faults_remove(number)


@contextmanager
def schedule(order: str) -> Iterator[None]:
    """Run the tasks of a ``with`` block in an unlikely order, in all threads.

    All streams are waited for at its beginning and at its end.

    Args:
        order: As in ``RUSTDEV_SCHEDULE``: ``"random:7"``, ``"lazy"``, ``"eager"`` or ``"reverse-priority"``.

    Raises:
        ValueError: There is no such order.
        RuntimeError: This is a forked child of a process that had used the device.
        torch.AcceleratorError: A stream is stuck.
    """
    before = _rustdev.schedule_switch(order)
    try:
        yield
    finally:
        _rustdev.schedule_switch(before)
