"""One operation of the backend: when Gloo gets it, how streams and the host wait for it, and how it fails.

Gloo works on the host. An operation is *posted* to it when what its tensors wait for is done, and is *over* when Gloo is done with
it. Either is a ``Completion``, which needs no Python to end: a stream that waits for it stands still and occupies no thread.
Operations of a group are posted in the order of their calls, which is how the ranks' operations find each other, but any of them
may end first.
"""

import functools
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import Work
from torch.distributed import DistBackendError

from .. import _rustdev
from ..streams import stream
from .group import GroupState
from .side_streams import side_streams

__all__ = ["Post", "RdcclWork", "finding"]

#: Gives an operation to Gloo.
Post = Callable[[], Work]
#: While a thread's ``finding.found`` is a list, works that are asked for their future put themselves there.
finding = threading.local()
_NO_TIME = timedelta(0)
#: How long the host may watch an operation that Gloo has before it goes on.
_MOMENT_SECONDS = 0.005


@functools.cache
def _no_future() -> "torch.futures.Future[None]":
    future: torch.futures.Future[None] = torch.futures.Future()
    future.set_result(None)
    return future


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
        self._ranges: list[tuple[int, int]] = []
        self._silence: tuple[str, timedelta] | None = None
        self._posted = _rustdev.Completion()
        self._over = _rustdev.Completion(f"{name} of {group.name} failed: ")
        self._refusal: ValueError | None = None
        self._future: torch.futures.Future[list[Tensor]] | None = None
        self._clock: _rustdev.SanitizerClock | None = None

    def issue(self) -> None:
        """Post it, now if what its tensors wait for is done, else behind that.

        Raises:
            ValueError: Gloo refuses an argument.
            DistBackendError: A connection is gone.
        """
        current = torch._C._accelerator_getStream(self._device)
        tensors = [*self._outputs, *self._inputs]
        self._ranges = [(tensor.data_ptr(), tensor.nbytes) for tensor in tensors]
        if _rustdev.sanitizer_mode() is not None:
            ranges = [
                (*bounds, index < len(self._outputs)) for index, bounds in enumerate(self._ranges) if not tensors[index].is_cpu
            ]
            self._clock = _rustdev.sanitizer_collective(self._name, self._device, current.stream_id, ranges)
        torch.ops.rustdev._keep(tensors, self._over.handle)
        self._inputs = ()
        group = self._group
        with group.order:
            is_ready = group.is_posted() and current.query()
            group.unfinished.add(self._over)
            if is_ready:
                self._post()
            before = group.follow(self._posted)
        if is_ready:
            self._raise()
            return
        with side_streams(self._device).take() as side:
            side.wait_stream(current)
            before.hold(self._device, side.stream_id)
            _rustdev.launch_host_func(self._device, side.stream_id, self._post)

    def leave_unanswered(self, text: str, timeout: timedelta) -> None:
        """Have Gloo never get it: an injected fault wants this rank to answer no more.

        Args:
            text: The fault.
            timeout: How long the operation may take; then it fails.
        """
        self._silence = (f"this rank takes part in no operation any more ({text}), for {timeout.total_seconds():g} s", timeout)

    def _order(self, target: torch.Stream | None) -> None:
        """Tell the race detector that a stream, or the host, waits for the operation."""
        if self._clock is not None:
            self._clock.order(self._device, None if target is None else target.stream_id)

    def _post(self) -> None:
        try:
            if self._group.aborted is not None:
                self._over.end(self._group.aborted)
            elif self._silence is not None:
                self._keep_silent(*self._silence)
            else:
                self._give_to_gloo()
        finally:
            self._posts = ()
            self._posted.end()

    def _give_to_gloo(self) -> None:
        # Gloo's threads write to the memory itself: nobody may move it meanwhile.
        self._over.note_writes(self._ranges)
        failure: str | None = "it was interrupted"
        try:
            for post in self._posts:
                self._parts.append(post())
            failure = None
        except Exception as error:
            failure = str(error) or repr(error)
            if failure.startswith("ProcessGroupGloo::"):  # an argument that it does not take: nothing is wrong with the group
                self._refusal = ValueError(failure)
                self._group.unfinished.discard(self._over)
        finally:
            torch.ops.rustdev._end_with([part.boxed() for part in self._parts], failure, self._over.handle, self._is_observable)

    def _keep_silent(self, text: str, timeout: timedelta) -> None:
        with side_streams(self._device).take() as side:
            _rustdev.sleep(self._device, side.stream_id, round(timeout.total_seconds() * 1e9))
            _rustdev.launch_host_func(self._device, side.stream_id, functools.partial(self._over.end, text))

    def _raise(self) -> None:
        error = self.exception()
        if error is not None:
            raise error

    def wait(self, timeout: timedelta = _NO_TIME) -> bool:
        """Make the current stream wait until the operation is over; the host waits for a barrier, and where a time is given.

        Args:
            timeout: For how long the host waits; 0 for not at all.

        Raises:
            DistBackendError: It has failed, or the time is over.
        """
        if self._is_barrier or timeout > _NO_TIME:
            self._hold_host(timeout)
        elif self._is_observable and self._posted.is_over() and not self._group.is_late():
            self._watch()
        current = torch._C._accelerator_getStream(self._device)
        self._order(current)
        if self.has_finished():
            self._raise()
        else:
            self._over.hold(self._device, current.stream_id)
        return True

    def _watch(self) -> None:
        """Hold the host for a moment: most operations end in it, and no stream has to wait for them."""
        if not self._over.wait(_MOMENT_SECONDS):
            self._group.late = self._over

    def _hold_host(self, timeout: timedelta) -> None:
        self._order(None)
        if not self._over.wait(timeout.total_seconds() if timeout > _NO_TIME else None):
            raise DistBackendError(f"{self._name} of {self._group.name} is not finished after {timeout.total_seconds():g} s")

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
        return self._over.is_over()

    def is_success(self) -> bool:
        """Return whether it has finished well."""
        return self.is_completed() and self._over.failure() is None

    def exception(self) -> Exception | None:
        """Return why it has failed, if it has."""
        failure = self._over.failure()
        return None if failure is None else self._refusal or DistBackendError(failure)

    def result(self) -> list[Tensor]:
        """Return the tensors that it writes."""
        return list(self._outputs)

    def source_rank(self) -> int:
        """Return the rank that a received message came from; the host waits for it."""
        self._over.wait()
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
            # A future tells its streams of no error: the stream fails that asks for it.
            self._over.fail(self._device, torch._C._accelerator_getStream(self._device).stream_id)
            with side_streams(self._device).take() as side:
                self._over.hold(self._device, side.stream_id, fails=False)
                self._order(side)
                with stream(side):
                    future.set_result(list(self._outputs))
            self._future = future
        return self._future
