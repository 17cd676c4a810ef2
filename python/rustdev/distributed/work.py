"""One operation of the backend: when Gloo gets it, how streams and the host wait for it, and how it fails.

Gloo works on the host. An operation is *posted* to it when what its tensors wait for is done, and *finished* when Gloo is done with
it. No thread of the program waits for either: where streams have to, a host function on them does. Operations of a group are posted
in the order of their calls, which is how the ranks' operations find each other, but any of them may finish first.
"""

import contextlib
import functools
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import Work
from torch.distributed import DistBackendError

from .. import _rustdev
from ..streams import stream
from .group import GroupState, Latch
from .loss import Unanswered
from .side_streams import side_streams

__all__ = ["Post", "RdcclWork", "finding", "unfinished_works"]

#: Gives an operation to Gloo.
Post = Callable[[], Work]
#: While a thread's ``finding.found`` is a list, works that are asked for their future put themselves there.
finding = threading.local()
_POLL_SECONDS = 0.0005
_NO_TIME = timedelta(0)
#: How long the host may watch an operation that Gloo has before it goes on.
_MOMENT = timedelta(milliseconds=5)
#: Gloo's own method, for its own works: that of programs' works is replaced (``forwarding``).
_is_completed = Work.is_completed
_works: "set[weakref.ref[RdcclWork]]" = set()


def unfinished_works() -> "list[RdcclWork]":
    """Return the operations of all groups that Gloo may be working on."""
    return [work for known in tuple(_works) if (work := known()) is not None]


@functools.cache
def _no_future() -> "torch.futures.Future[None]":
    future: torch.futures.Future[None] = torch.futures.Future()
    future.set_result(None)
    return future


def _extent(tensor: Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()


def _ranges(tensors: Sequence[Tensor], writes: bool) -> list[tuple[int, int, bool]]:
    return [(tensor.data_ptr(), tensor.numel() * tensor.itemsize, writes) for tensor in tensors if not tensor.is_cpu]


class RdcclWork(Work):
    """An operation of a group, as ``torch.distributed`` hands it out.

    Args:
        name: What it is, for errors.
        group: What the operations of its group share.
        device: The index of the device.
        posts: Give its parts to Gloo.
        outputs: The tensors that it writes.
        inputs: The other tensors that Gloo works on.
        is_barrier: Whether ``wait`` holds the host until all ranks are there.
        is_observable: Whether Gloo says when it is done; it does not of single messages.
    """

    def __init__(
        self,
        name: str,
        group: GroupState,
        device: int,
        posts: Sequence[Post],
        *,
        outputs: Sequence[Tensor] = (),
        inputs: Sequence[Tensor] = (),
        is_barrier: bool = False,
        is_observable: bool = True,
    ) -> None:
        super().__init__()
        self._name = name
        self._group = group
        self._device = device
        self._posts = posts
        self._outputs = outputs
        self._inputs = inputs
        self._is_barrier = is_barrier
        self._is_observable = is_observable
        self._parts: list[Work] = []
        self._posted = Latch()
        self._finishing = threading.Lock()
        self._done = False
        self._error: Exception | None = None
        self._future: torch.futures.Future[list[Tensor]] | None = None
        self._writes: _rustdev.HostWrites | None = None
        self._clock: _rustdev.SanitizerClock | None = None

    def issue(self) -> None:
        """Post it, now if what its tensors wait for is done, else behind that.

        Raises:
            ValueError: Gloo refuses an argument.
            DistBackendError: A connection is gone.
        """
        current = torch._C._accelerator_getStream(self._device)
        if _rustdev.sanitizer_mode() is not None:
            ranges = [*_ranges(self._outputs, True), *_ranges(self._inputs, False)]
            self._clock = _rustdev.sanitizer_collective(self._name, self._device, current.stream_id, ranges)
        with self._group.order:
            is_ready = self._group.is_posted() and current.query()
            if is_ready:
                self._post()
            before = self._group.follow(self._posted)
        self._raise()
        self._group.unfinished.add(self)
        if is_ready and self._is_observable:
            return
        with side_streams(self._device).take() as side:
            if not is_ready:
                side.wait_stream(current)
                self._launch(side, functools.partial(self._post_behind, before))
            if not self._is_observable:
                self._launch(side, self.finish)

    def leave_unanswered(self, text: str, timeout: timedelta) -> None:
        """Have Gloo never get it: an injected fault wants this rank to answer no more.

        Args:
            text: The fault.
            timeout: How long the operation may take; then it fails.
        """
        self._posts = (lambda: Unanswered(text, timeout),)
        self._is_observable = False

    def _order(self, target: torch.Stream | None) -> None:
        """Tell the race detector that a stream, or the host, waits for the operation."""
        if self._clock is not None:
            self._clock.order(self._device, None if target is None else target.stream_id)

    def _launch(self, target: torch.Stream, function: Callable[[], object]) -> None:
        _rustdev.launch_host_func(self._device, target.stream_id, function)

    def _post(self) -> None:
        # Gloo's threads write to the memory itself: nobody may move it meanwhile.
        self._writes = _rustdev.HostWrites([_extent(tensor) for tensor in (*self._outputs, *self._inputs)])
        _works.add(weakref.ref(self, _works.discard))
        try:
            self._parts = [post() for post in self._posts]
        except Exception as error:
            self._fail(error)
        self._posts = ()
        self._posted.open()

    def _post_behind(self, before: Latch) -> None:
        before.wait()
        self._post()

    def finish(self) -> None:
        """Return when Gloo is done with it, or it has failed; does not raise."""
        self._posted.wait()
        with self._finishing:
            if self._done:
                return
            for part in self._parts:
                self._wait_for(part)
            self._close()

    def _close(self) -> None:
        self._inputs = ()
        self._writes = None
        _works.discard(weakref.ref(self))
        self._done = True
        self._group.unfinished.discard(self)
        if self._group.late is self:
            self._group.late = None

    def _wait_for(self, part: Work) -> None:
        try:
            part.wait()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self._error is not None:
            return
        if str(error).startswith("ProcessGroupGloo::"):  # an argument that it does not take: nothing is wrong with the group
            self._error = ValueError(str(error))
            return
        self._error = DistBackendError(f"{self._name} of {self._group.name} failed: {error}")
        self._group.failure = self._group.failure or self._error

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _finish_in_stream(self) -> None:
        self.finish()
        self._raise()

    def _finish_on_side(self, watcher: torch.Stream) -> None:
        """Finish, and let the stream fail that asked for a future: a future tells its streams of no error."""
        self.finish()
        if self._error is not None:
            with contextlib.suppress(Exception):  # where launches block it raises here, on nobody's behalf
                self._launch(watcher, self._raise)

    def wait(self, timeout: timedelta = _NO_TIME) -> bool:
        """Make the current stream wait until the operation is finished; the host waits for a barrier, and where a time is given.

        Args:
            timeout: For how long the host waits; 0 for not at all.

        Raises:
            DistBackendError: It has failed, or the time is over.
        """
        if self._is_barrier or timeout > _NO_TIME:
            self._hold_host(timeout)
        elif self._is_observable and self._posted.is_open() and not self._group.is_late():
            self._watch()
        current = torch._C._accelerator_getStream(self._device)
        self._order(current)
        if self.has_finished():
            self._raise()
        else:
            self._launch(current, self._finish_in_stream)
        return True

    def _watch(self) -> None:
        """Hold the host for a moment: short operations end in it, and a stream that does not have to wait saves two threads."""
        try:
            for part in self._parts:
                part.wait(_MOMENT)
        except Exception:  # it is late, or it has failed, which whoever finishes it finds
            self._group.late = self
        else:
            if self._error is None:
                self._close()

    def _hold_host(self, timeout: timedelta) -> None:
        self._order(None)
        if timeout <= _NO_TIME:
            return self.finish()
        deadline = time.monotonic() + timeout.total_seconds()
        while not self.has_finished():
            if time.monotonic() > deadline:
                raise DistBackendError(f"{self._name} of {self._group.name} is not finished after {timeout.total_seconds():g} s")
            time.sleep(_POLL_SECONDS)
        return None

    def synchronize(self) -> None:
        """Make the current stream wait, as ``wait`` does."""
        self.wait()

    def block_current_stream(self) -> None:
        """Make the current stream wait, as ``wait`` does."""
        self.wait()

    def is_completed(self) -> bool:
        """Return whether it is finished, well or not."""
        is_finished = self.has_finished()
        if is_finished:
            self._order(None)
        return is_finished

    def has_finished(self) -> bool:
        """As ``is_completed``, for calls that the program does not learn it from."""
        if self._done:
            return True
        if self._is_observable and self._posted.is_open() and all(map(_is_completed, self._parts)):
            self.finish()
        return self._done

    def is_success(self) -> bool:
        """Return whether it has finished well."""
        return self.is_completed() and self._error is None

    def exception(self) -> Exception | None:
        """Return why it has failed, if it has."""
        return self._error

    def result(self) -> list[Tensor]:
        """Return the tensors that it writes."""
        return list(self._outputs)

    def source_rank(self) -> int:
        """Return the rank that a received message came from; the host waits for it."""
        self.finish()
        self._order(None)
        self._raise()
        return self._parts[0]._source_rank()

    _source_rank = source_rank

    def get_future(self) -> Any:
        """Return a future of the written tensors: it is done at once, and streams that wait for it wait for the operation."""
        finder = getattr(finding, "found", None)
        if finder is not None:
            finder.append(self)
            return _no_future()
        if self._future is None:
            future: torch.futures.Future[list[Tensor]] = torch.futures.Future(devices=[torch.device("rustdev", self._device)])
            watcher = torch._C._accelerator_getStream(self._device)
            with side_streams(self._device).take() as side:
                self._launch(side, functools.partial(self._finish_on_side, watcher))
                self._order(side)
                with stream(side):
                    future.set_result(list(self._outputs))
            self._future = future
        return self._future
