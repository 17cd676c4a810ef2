"""Side streams: streams of a device on which operations wait, apart from those of the program."""

import contextlib
import functools
from collections import deque
from collections.abc import Iterator

from ..streams import Stream

__all__ = ["SideStreams", "side_streams"]

#: As many as the device's pool has.
_MAX_STREAMS = 32


class SideStreams:
    """Streams of a device for what has to wait apart from the program's own streams.

    A stream with unfinished tasks is passed over while there are others, so that no operation waits for an unrelated one.
    They are of high priority, as programs seldom use those; they do not compute.

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
        stream = self._choose()
        try:
            yield stream
        finally:
            self._free.append(stream)

    def _choose(self) -> Stream:
        with contextlib.suppress(IndexError):  # other threads took them all
            for _ in range(len(self._free)):
                stream = self._free.popleft()
                if stream.query():
                    return stream
                self._free.append(stream)
            if self._made >= _MAX_STREAMS:
                return self._free.popleft()
        self._made += 1
        return Stream(self._device, priority=-1)


@functools.cache
def side_streams(device: int) -> SideStreams:
    """Return the side streams of a device.

    Args:
        device: The index of the device.
    """
    return SideStreams(device)
