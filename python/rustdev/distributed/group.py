"""Shared state of the operations of a group: the order in which they are posted to Gloo, and the group's failure."""

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch.distributed import DistBackendError

from .. import _rustdev
from ..streams import Stream

if TYPE_CHECKING:
    from .comparison import Comparison

#: How long ``finish`` waits for one operation before it checks whether another has failed.
_GLANCE_SECONDS = 0.05


class GroupState:
    """Shared state of the operations of a group.

    Args:
        name: Description of the rank and the group, for errors.
        ranks: Global numbers of the group's ranks, for simulated time.
    """

    def __init__(self, name: str, ranks: Sequence[int] = ()) -> None:
        self.name = name
        self.ranks = ranks
        #: For each device, the stream on which the clock of a profile has the group's operations.
        self._communicators: dict[int, Stream] = {}
        #: Compares the calls of the ranks, if the program asks for it.
        self.comparison: Comparison | None = None
        self.failure: Exception | None = None
        #: Failure message of operations that are not posted, since the group was aborted.
        self.aborted: str | None = None
        #: Held while an operation is ordered after the previous ones.
        self.order = threading.Lock()
        #: Completions of operations that are not known to be over.
        self.unfinished: set[_rustdev.Completion] = set()
        #: Completion of the last operation that did not end within the host's short wait. Until it ends, no other is waited for so.
        self.late: _rustdev.Completion | None = None
        self._last = _rustdev.Completion()
        self._last.end()

    def communicator(self, device: int) -> Stream:
        """Return the stream on which the clock of a profile has the group's operations.

        Args:
            device: Device index.
        """
        if device not in self._communicators:
            self._communicators[device] = Stream(device, priority=-1)
        return self._communicators[device]

    def check(self) -> None:
        """Raise if the group has failed, as its connections are then lost.

        Raises:
            DistBackendError: If an operation has failed.
        """
        self._sweep()
        if self.failure is not None:
            raise DistBackendError(f"{self.name} cannot be used any more, make a new group: {self.failure}")

    def follow(self, posted: _rustdev.Completion) -> _rustdev.Completion:
        """Order an operation after the previous ones.

        Args:
            posted: Completion of its posting.

        Returns:
            Completion of the posting of the previous operation.
        """
        before, self._last = self._last, posted
        return before

    def is_posted(self) -> bool:
        """Return whether all operations so far are posted."""
        return self._last.is_over()

    def is_late(self) -> bool:
        """Return whether an operation that exceeded the host's short wait is still running; see ``late``."""
        return self.late is not None and not self.late.is_over()

    def finish(self, seconds: float) -> bool:
        """Wait until all operations are over, or one has failed.

        Args:
            seconds: Timeout.

        Returns:
            Whether all are over.
        """
        deadline = time.monotonic() + seconds
        self._sweep()
        while self.failure is None and self.unfinished:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            for over in tuple(self.unfinished)[:1]:
                over.wait(min(left, _GLANCE_SECONDS))
            self._sweep()
        return not self.unfinished

    def _sweep(self) -> None:
        """Remove operations that are over. The first failure found becomes the group's failure."""
        for over in tuple(self.unfinished):
            if over.is_over():
                self.unfinished.discard(over)
                failure = over.failure()
                if failure is not None:
                    self.failure = self.failure or DistBackendError(failure)
