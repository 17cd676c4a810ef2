"""Streams on which operations wait, apart from those of the program."""

import contextlib
import functools
from collections import deque
from collections.abc import Iterator

from ..streams import Stream

__all__ = ["Lanes", "lanes"]

#: As many as the device's pool has.
_MAX_LANES = 32


class Lanes:
    """Streams of a device for what has to wait apart from the program's own streams.

    A lane that stands still is left alone while there are others, so that no operation waits for one that it has nothing to do
    with. They are of high priority, as programs seldom use those; they do not compute.

    Args:
        device: The index of the device.
    """

    def __init__(self, device: int) -> None:
        self._device = device
        self._made = 0
        self._free: deque[Stream] = deque()

    @contextlib.contextmanager
    def take(self) -> Iterator[Stream]:
        """Lend a stream for the time in which it is given its tasks."""
        lane = self._choose()
        try:
            yield lane
        finally:
            self._free.append(lane)

    def _choose(self) -> Stream:
        busy: Stream | None = None
        for _ in range(len(self._free)):
            with contextlib.suppress(IndexError):  # another thread took it
                lane = self._free.popleft()
                if lane.query():
                    return lane
                self._free.append(lane)
                busy = lane
        if self._made < _MAX_LANES or busy is None:
            self._made += 1
            return Stream(self._device, priority=-1)
        return busy


@functools.cache
def lanes(device: int) -> Lanes:
    """Return the lanes of a device.

    Args:
        device: The index of the device.
    """
    return Lanes(device)
