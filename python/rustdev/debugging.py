"""Debugging modes: fault injection, and unlikely orders of tasks."""

from collections.abc import Iterator
from contextlib import contextmanager

from . import _rustdev

__all__ = ["inject_faults", "schedule"]


@contextmanager
def inject_faults(faults: str) -> Iterator[None]:
    """Context manager that injects faults, in all threads. Occurrences are counted from the beginning of the block.

    On exit, the previous faults, such as the list of ``RUSTDEV_FAULTS``, are in force again with their own counts. A task that was
    submitted within the block keeps its fault even if it runs later.

    Args:
        faults: List of faults as in ``RUSTDEV_FAULTS``, for example ``"oom:3"`` or ``"kernel:mm:2,copy:10"``; ``""`` for none.

    Raises:
        ValueError: If a part of the list is malformed; the message names it.
        RuntimeError: If this is a forked child of a process that used the device.
    """
    number = _rustdev.faults_push(faults)
    try:
        yield
    finally:
        _rustdev.faults_remove(number)


@contextmanager
def schedule(order: str) -> Iterator[None]:
    """Context manager that runs tasks in an unlikely order, in all threads.

    Entering and leaving wait for all streams.

    Args:
        order: Order as in ``RUSTDEV_SCHEDULE``: ``"random:SEED"``, ``"lazy"``, ``"eager"`` or ``"reverse-priority"``.

    Raises:
        ValueError: If there is no such order.
        RuntimeError: If this is a forked child of a process that used the device.
        torch.AcceleratorError: If a stream is stuck.
    """
    before = _rustdev.schedule_switch(order)
    try:
        yield
    finally:
        _rustdev.schedule_switch(before)
