"""What the operations of a group have in common: the order in which Gloo gets them, and whether the group still works."""

import threading
import time

from torch.distributed import DistBackendError

from .. import _rustdev

__all__ = ["GroupState"]

#: How long the end of a group waits for one operation before it looks whether another has failed.
_GLANCE_SECONDS = 0.05


class GroupState:
    """What the operations of a group share.

    Args:
        name: How errors name the group and the rank.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.failure: Exception | None = None
        #: Why what is not posted yet never will be.
        self.aborted: str | None = None
        #: Held while an operation takes its place among the others.
        self.order = threading.Lock()
        #: The ends of operations that nobody has found to be over.
        self.unfinished: set[_rustdev.Completion] = set()
        #: The end of the last operation that the host gave up watching; until it is over, the host watches no other.
        self.late: _rustdev.Completion | None = None
        self._last = _rustdev.Completion()
        self._last.end()

    def check(self) -> None:
        """Refuse further operations of a group whose connections are gone.

        Raises:
            DistBackendError: An operation has failed.
        """
        self._sweep()
        if self.failure is not None:
            raise DistBackendError(f"{self.name} cannot be used any more, make a new group: {self.failure}")

    def follow(self, posted: _rustdev.Completion) -> _rustdev.Completion:
        """Put an operation behind those before it.

        Args:
            posted: Ends when it is posted.

        Returns:
            That of the one before.
        """
        before, self._last = self._last, posted
        return before

    def is_posted(self) -> bool:
        """Return whether nothing waits to be posted."""
        return self._last.is_over()

    def is_late(self) -> bool:
        """Return whether an operation is under way that the host gave up watching."""
        return self.late is not None and not self.late.is_over()

    def finish(self, seconds: float) -> bool:
        """Wait until every operation is over; those of a group that has failed are not waited for.

        Args:
            seconds: For how long at most.

        Returns:
            Whether they are.
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
        """Let go of operations that are over; the first one that has failed is the group's failure."""
        for over in tuple(self.unfinished):
            if over.is_over():
                self.unfinished.discard(over)
                failure = over.failure()
                if failure is not None:
                    self.failure = self.failure or DistBackendError(failure)
