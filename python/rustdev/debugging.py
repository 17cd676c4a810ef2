"""Debugging modes: fault injection, unlikely orders of tasks, and dry runs."""

from collections.abc import Iterator
from contextlib import contextmanager

from . import _rustdev
from .memory import empty_cache

__all__ = ["dry_run", "inject_faults", "is_dry_run", "schedule"]


@contextmanager
def dry_run() -> Iterator[None]:
    """Context manager in which nothing is computed, in all threads: a dry run, as of a whole program with ``RUSTDEV_COMPUTE=none``.

    Operators check their arguments, allocate, submit and free as always, but kernels do not run, and new memory is reserved without
    being used. Values that the host reads are zeros. Without ``RUSTDEV_MEMORY_LIMIT`` and ``RUSTDEV_PROFILE`` no budget holds.

    Kernels that were submitted before the block still compute. Tensors made in it stay valid afterwards; their memory, which was
    never written, reads as zeros, and takes memory of the machine when it is written. The end of the last block releases cached
    memory.

    Raises:
        RuntimeError: If this is a forked child of a process that used the device.
    """
    _rustdev.dry_run_begin(at_start=False)
    try:
        yield
    finally:
        if _rustdev.dry_run_end():
            empty_cache()


def is_dry_run() -> bool:
    """Return whether a dry run is on; see :func:`dry_run`."""
    return _rustdev.is_dry_run()


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
