"""What the operations of a group have in common: the order in which Gloo gets them, and whether the group still works."""

import threading
from typing import TYPE_CHECKING

from torch.distributed import DistBackendError

if TYPE_CHECKING:
    from .work import RdcclWork

__all__ = ["GroupState", "Latch"]


class Latch:
    """Opens once, for all who wait."""

    __slots__ = ("_closed",)

    def __init__(self) -> None:
        self._closed = threading.Lock()
        self._closed.acquire()

    def is_open(self) -> bool:
        """Return whether nobody has to wait any more."""
        return not self._closed.locked()

    def open(self) -> None:
        """Let all pass."""
        self._closed.release()

    def wait(self) -> None:
        """Return when it is open."""
        with self._closed:
            pass


class GroupState:
    """What the operations of a group share.

    Args:
        name: How errors name the group and the rank.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.failure: Exception | None = None
        #: Held while an operation takes its place among the others.
        self.order = threading.Lock()
        #: Operations that are not finished: they keep their tensors, which Gloo works on.
        self.unfinished: set[RdcclWork] = set()
        #: The last operation that the host gave up watching; until it is finished, the host watches no other.
        self.late: RdcclWork | None = None
        self._last = Latch()
        self._last.open()

    def check(self) -> None:
        """Refuse further operations of a group whose connections are gone.

        Raises:
            DistBackendError: An operation has failed.
        """
        if self.failure is not None:
            raise DistBackendError(f"{self.name} cannot be used any more, make a new group: {self.failure}")

    def follow(self, latch: Latch) -> Latch:
        """Put an operation behind those before it.

        Args:
            latch: Opens when it is posted.

        Returns:
            The latch of the one before.
        """
        before, self._last = self._last, latch
        return before

    def is_posted(self) -> bool:
        """Return whether nothing waits to be posted."""
        return self._last.is_open()

    def is_late(self) -> bool:
        """Return whether an operation is under way that the host gave up watching."""
        if self.late in self.unfinished:
            return True
        self.late = None
        return False

    def sweep(self) -> None:
        """Let go of operations that are done and that nobody waited for."""
        for work in tuple(self.unfinished):
            work.has_finished()
