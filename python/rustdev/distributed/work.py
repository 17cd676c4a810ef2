"""An operation of the backend: when it is posted to Gloo, how streams and the host wait for it, and how it fails.

Gloo works on the host. An operation is *posted* to Gloo when the work that its tensors depend on is done, and is *over* when Gloo
has completed it. Both points are a ``Completion``, which ends without Python: a stream that waits for one occupies no thread.
Operations of a group are posted in the order of their calls, so that the operations of all ranks match. They may end in any order.
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
from .._name import NAME
from ..streams import stream
from .comparison import CollectiveCall
from .group import GroupState
from .side_streams import side_streams

#: Posts an operation to Gloo.
Post = Callable[[], Work]
#: While ``finding.found`` is a list, ``get_future`` of an RdcclWork in this thread appends the RdcclWork to it.
finding = threading.local()
_NO_TIME = timedelta(0)
#: How long ``wait`` holds the host for a posted operation before it lets the stream wait instead.
_MOMENT_SECONDS = 0.005


@functools.cache
def _no_future() -> "torch.futures.Future[None]":
    future: torch.futures.Future[None] = torch.futures.Future()
    future.set_result(None)
    return future


class RdcclWork(Work):
    """An operation of a group: the ``Work`` that ``torch.distributed`` returns.

    Args:
        name: Name of the operation, for errors.
        group: Shared state of the operations of its group.
        device: Device index.
        posts: Functions that post the parts of the operation to Gloo.
        outputs: Tensors that it writes.
        inputs: Other tensors that Gloo uses.
        is_barrier: Whether ``wait`` blocks the host until all ranks have arrived.
        is_observable: Whether Gloo reports the completion; it does not for single messages.
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
        self._is_dry = False
        self._silence: tuple[str, timedelta] | None = None
        self._call: CollectiveCall | None = None
        self._timeout = _NO_TIME
        self._posted = _rustdev.Completion()
        self._over = _rustdev.Completion(f"{name} of {group.name} failed: ")
        self._refusal: ValueError | None = None
        self._future: torch.futures.Future[list[Tensor]] | None = None
        self._clock: _rustdev.SanitizerClock | None = None
        self._moment: _rustdev.SimulatedMoment | None = None

    def issue(self, timeout: timedelta = _NO_TIME) -> None:
        """Post the operation: at once if the work that its tensors depend on is done, else after that work.

        Args:
            timeout: Timeout of the group, for a comparison of the ranks.

        Raises:
            ValueError: If Gloo rejects an argument.
            DistBackendError: If a connection is lost.
        """
        current = torch._C._accelerator_getStream(self._device)
        tensors = [*self._outputs, *self._inputs]
        self._is_dry = _rustdev.is_dry_run() and not self._is_barrier
        self._ranges = [(tensor.data_ptr(), tensor.nbytes) for tensor in tensors]
        if _rustdev.sanitizer_mode() is not None:
            ranges = [
                (*bounds, index < len(self._outputs)) for index, bounds in enumerate(self._ranges) if not tensors[index].is_cpu
            ]
            self._clock = _rustdev.sanitizer_collective(self._name, self._device, current.stream_id, ranges)
        if _rustdev.clock_profile() is not None:
            self._simulate(current.stream_id)
        group = self._group
        self._timeout = timeout
        if group.comparison is not None and not self._is_dry:
            self._call = group.comparison.call(self._name, self._outputs, self._inputs)
        torch.ops.rustdev._keep(tensors, self._over.handle)
        self._inputs = ()
        with group.order:
            # A comparison waits for the other ranks, which this thread must not.
            is_ready = self._call is None and group.is_posted() and current.query()
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

    def _simulate(self, stream_id: int) -> None:
        """Tell the clock of the profile of the operation."""
        size = max(sum(tensor.nbytes for tensor in tensors) for tensors in (self._outputs, self._inputs))
        communicator = self._group.communicator(self._device)
        self._moment = _rustdev.clock_collective(
            self._name, self._device, stream_id, communicator.stream_id, self._group.ranks, size
        )

    def leave_unanswered(self, text: str, timeout: timedelta) -> None:
        """Do not post the operation to Gloo: an injected fault makes this rank unresponsive.

        Args:
            text: Description of the fault.
            timeout: Timeout of the operation, after which it fails.
        """
        self._silence = (f"this rank takes part in no operation any more ({text}), for {timeout.total_seconds():g} s", timeout)

    def _order(self, target: torch.Stream | None) -> None:
        """Tell the race detector and the clock of the profile that a stream, or the host, waits for the operation."""
        if self._moment is not None and target is None:
            self._moment.wait()
        elif self._moment is not None and target is not None:
            self._moment.order(self._device, target.stream_id)
        if self._clock is not None:
            self._clock.order(self._device, None if target is None else target.stream_id)

    def _post(self) -> None:
        try:
            if self._group.aborted is not None:
                self._over.end(self._group.aborted)
            elif self._silence is not None:
                self._keep_silent(*self._silence)
            elif self._is_dry:
                self._over.end()
            elif self._call is not None and (difference := self._difference(self._call)) is not None:
                self._end_different(difference)
            else:
                self._give_to_gloo()
        finally:
            self._posts = ()
            self._posted.end()

    def _difference(self, call: CollectiveCall) -> str | None:
        assert self._group.comparison is not None
        try:
            return self._group.comparison.difference(call)
        except RuntimeError as error:
            return f"this rank {call}, and not all others call anything: {error}"

    def _end_different(self, difference: str) -> None:
        if self._group.comparison is not None and self._group.comparison.hangs:
            self._keep_silent(f"{difference}; NCCL would hang, and this rank has waited for {self._timeout}", self._timeout)
        else:
            self._over.end(difference)

    def _give_to_gloo(self) -> None:
        # Gloo's threads write directly to the memory, which must not be moved meanwhile.
        self._over.note_writes(self._ranges)
        failure: str | None = "it was interrupted"
        try:
            for post in self._posts:
                self._parts.append(post())
            failure = None
        except Exception as error:
            failure = str(error) or repr(error)
            if failure.startswith("ProcessGroupGloo::"):  # Gloo rejected an argument: the group itself has not failed
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
        """Make the current stream wait for the operation. For a barrier, or with a timeout, the host waits, too.

        Args:
            timeout: How long the host waits; 0: only the stream waits.

        Raises:
            DistBackendError: If the operation has failed, or the timeout expires.
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
        """Block the host for a few milliseconds: most operations end within this time, so that no stream has to wait."""
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
        """Return whether the operation is over, successfully or not."""
        is_finished = self.has_finished()
        if is_finished:
            self._order(None)
        return is_finished

    def has_finished(self) -> bool:
        """As ``is_completed``, for internal use: the result establishes no happens-before order for the race detector."""
        return self._over.is_over()

    def is_success(self) -> bool:
        """Return whether the operation is over without a failure."""
        return self.is_completed() and self._over.failure() is None

    def exception(self) -> Exception | None:
        """Return the exception of a failed operation, else None."""
        failure = self._over.failure()
        return None if failure is None else self._refusal or DistBackendError(failure)

    def result(self) -> list[Tensor]:
        """Return the tensors that the operation writes."""
        return list(self._outputs)

    def source_rank(self) -> int:
        """Block the host until a message is received, and return the rank that sent it."""
        self._over.wait()
        self._order(None)
        self._raise()
        return self._parts[0]._source_rank()

    _source_rank = source_rank

    def get_future(self) -> Any:
        """Return a future of the written tensors. It is completed at once; streams that wait for it wait for the operation."""
        finder = getattr(finding, "found", None)
        if finder is not None:
            finder.append(self)
            return _no_future()
        if self._future is None:
            future: torch.futures.Future[list[Tensor]] = torch.futures.Future(devices=[torch.device(NAME, self._device)])
            # A future does not propagate errors to streams: instead, a failure fails the stream that is current at this call.
            self._over.fail(self._device, torch._C._accelerator_getStream(self._device).stream_id)
            with side_streams(self._device).take() as side:
                self._over.hold(self._device, side.stream_id, fails=False)
                self._order(side)
                with stream(side):
                    future.set_result(list(self._outputs))
            self._future = future
        return self._future
