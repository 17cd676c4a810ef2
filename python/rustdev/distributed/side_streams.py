"""Side streams: streams of a device on which operations wait, separate from the program's streams."""

import contextlib
import functools
from collections import deque
from collections.abc import Iterator

from ..streams import Stream

#: The size of the device's stream pool.
_MAX_STREAMS = 32


class SideStreams:
    """Pool of streams of a device, for waits that must not block the program's streams.

    Idle streams are preferred, so that an operation does not wait for an unrelated one. The streams have high priority because
    programs seldom use such streams; they run no kernels.

    Args:
        device: Device index.
    """

    def __init__(self, device: int) -> None:
        self._device = device
        self._made = 0
        self._free: deque[Stream] = deque()

    @contextlib.contextmanager
    def take(self) -> Iterator[Stream]:
        """Context manager that lends a stream while tasks are submitted to it."""
        stream = self._choose()
        try:
            yield stream
        finally:
            self._free.append(stream)

    def _choose(self) -> Stream:
        with contextlib.suppress(IndexError):  # raised if other threads have taken all streams
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
        device: Device index.
    """
    return SideStreams(device)
