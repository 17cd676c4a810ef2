"""Simulated time: what a program would take on a GPU, by a model of the GPU of a profile."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from . import _rustdev

__all__ = ["simulated_clock", "simulated_time"]


class DeviceTime(NamedTuple):
    """Busy times of a device in simulated seconds. They overlap.

    Attributes:
        device: Device index.
        kernels: Seconds in which a kernel was executed.
        copies_in: Seconds of copies from the host.
        copies_out: Seconds of copies to the host.
        links: Seconds of copies and collectives between devices.
    """

    device: int
    kernels: float
    copies_in: float
    copies_out: float
    links: float


class SimulatedTime(NamedTuple):
    """Counts of a simulated clock since its begin.

    Attributes:
        seconds: Simulated time of the host.
        devices: Busy times of each device that was used.
        flops: Floating-point operations, as ``torch.utils.flop_counter`` counts them.
        kernels: Number of kernels, copies and fills.
    """

    seconds: float
    devices: tuple[DeviceTime, ...]
    flops: int
    kernels: int


def simulated_time() -> SimulatedTime | None:
    """Return the time of the simulated clock; None if no clock runs.

    The host has waited for a device only where the program has: call ``synchronize`` first to include submitted work.
    """
    counted = _rustdev.clock_report()
    if counted is None:
        return None
    host, devices, flops, kernels = counted
    times = tuple(DeviceTime(device, *(nanoseconds / 1e9 for nanoseconds in busy)) for device, busy in devices)
    return SimulatedTime(host / 1e9, times, flops, kernels)


@contextmanager
def simulated_clock(profile: str) -> Iterator[None]:
    """Context manager in which the clock of a profile runs, in all threads, as with ``RUSTDEV_CLOCK=profile``.

    Events, the profiler and :func:`simulated_time` tell simulated times, which do not depend on this machine. In a dry run nothing
    is computed; otherwise results are as always.

    Args:
        profile: Name as in ``RUSTDEV_PROFILE``, for example ``"a100-80g"``, or path of a file.

    Raises:
        ValueError: If there is no such profile.
        RuntimeError: If a clock runs already, or this is a forked child of a process that used the device.
    """
    _rustdev.clock_begin(profile)
    try:
        yield
    finally:
        _rustdev.clock_end()
