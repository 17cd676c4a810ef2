"""Streams and events: the order of device work, and how the host and other streams wait for it."""

import ctypes
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from typing_extensions import Self

from . import _rustdev
from ._name import NAME
from ._utils import DeviceLike, _checked_device_index, _expect_callable, _refuse_in_fork_child, _ThreadStack, _use

__all__ = [
    "Event",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "get_stream_from_external",
    "launch_host_func",
    "set_stream",
    "stream",
]

_DEVICE_TYPE = int(torch._C._autograd.DeviceType.PrivateUse1.value)


def _expect(kind: type, value: object) -> None:
    """Raise TypeError for a wrong type. The base classes of torch do not check the types of their arguments."""
    if not isinstance(value, kind):
        raise TypeError(f"expected a torch.{kind.__name__}, got {type(value).__name__}")


class Stream(torch.Stream):
    """A first-in first-out queue of device work that is independent of other streams.

    Streams come round robin from a pool of 32 for each device and priority, and live as long as the process. A
    stream that is capturing is passed over.

    Args:
        device: Device of the stream. Default: the current device.
        priority: 0, or -1 for a high-priority stream. Other numbers are clamped to this range.
    """

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **kwargs: Any) -> Self:  # noqa: D102
        if "stream_id" in kwargs:
            return super().__new__(cls, **kwargs)
        return super().__new__(cls, torch.device(NAME, _checked_device_index(device)), priority=priority)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Return the lowest and the highest priority: (0, -1)."""
        return 0, -1

    @property
    def priority(self) -> int:
        """Priority of the stream: 0, or -1 for high priority."""
        return _rustdev.stream_priority(self.device_index, self.stream_id)

    @property
    def rustdev_stream(self) -> int:
        """Native handle of the stream, for other libraries and for ``ExternalStream``."""
        return self.native_handle  # type: ignore[attr-defined, no-any-return]

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.rustdev_stream)

    def wait_event(self, event: torch.Event) -> None:
        """Make all future work submitted to the stream wait for an event.

        Args:
            event: Event of this device or another. An event that was never recorded is not waited for.
        """
        _expect(torch.Event, event)
        if not event.event_id:
            _rustdev.sanitizer_waits_for_nothing(self.device_index, self.stream_id)
        super().wait_event(event)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Synchronize with another stream: all future work of this stream waits for all work submitted to the other so far.

        Args:
            stream: Stream of this device or another.
        """
        _expect(torch.Stream, stream)
        super().wait_stream(stream)

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Record an event that captures all work submitted to the stream so far.

        Args:
            event: Event to record. Default: a new event.

        Returns:
            The recorded event.
        """
        if event is None:
            event = Event()
        _expect(torch.Event, event)
        event.record(self)
        return event

    # torch.Stream stores the stream to restore once for all threads.
    def __enter__(self) -> Self:
        context = StreamContext(self)
        context.__enter__()
        self.__dict__.setdefault("_entered", _ThreadStack()).push(context)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        context: StreamContext | None = self.__dict__["_entered"].pop()
        if context is not None:
            context.__exit__(kind, error, traceback)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, torch.Stream) and super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return super().__hash__()

    def __repr__(self) -> str:
        return f"<torch.{NAME}.Stream device={self.device} rustdev_stream={self.rustdev_stream:#x}>"


class ExternalStream(Stream):
    """A stream given by its native handle.

    Args:
        stream_ptr: Native handle: ``rustdev_stream`` of a stream, or a result of ``rd_stream_handle`` of the C ABI.
        device: Device of the stream. Default: the current device.
        priority: Ignored, accepted for compatibility with ``torch.cuda``: the stream keeps its priority.
    """

    def __new__(cls, stream_ptr: int, device: DeviceLike = None, *, priority: int = 0) -> Self:  # noqa: D102
        index = _checked_device_index(device)
        stream_id = _rustdev.stream_from_handle(index, stream_ptr)
        return super().__new__(cls, stream_id=stream_id, device_index=index, device_type=_DEVICE_TYPE)


class Event(torch.Event):
    """A synchronization marker in a stream, to wait for work and to measure time.

    Args:
        enable_timing: Whether the event measures time, for ``elapsed_time``.
        blocking: Ignored, accepted for compatibility with ``torch.cuda``: ``synchronize`` never spins for long.
        interprocess: Whether the event can be shared between processes by ``ipc_handle``. Excludes ``enable_timing``.
        external: Ignored, accepted for compatibility with ``torch.cuda``, where it concerns graph capture.

    Raises:
        RuntimeError: If both ``interprocess`` and ``enable_timing`` are set.
    """

    _timing: bool
    _interprocess: bool

    def __new__(  # noqa: D102
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> Self:
        if interprocess:
            _refuse_in_fork_child()
            if enable_timing:
                raise RuntimeError("an interprocess event needs enable_timing=False")
        event = super().__new__(cls, torch.device(NAME), enable_timing=enable_timing, blocking=blocking)
        event._timing = enable_timing
        event._interprocess = interprocess
        return event

    @classmethod
    def from_ipc_handle(cls, device: DeviceLike, handle: bytes) -> Self:
        """Reconstruct an event of another process from its IPC handle.

        Args:
            device: Device of the event.
            handle: Result of ``ipc_handle`` in the other process, which must keep its event until this call.

        Raises:
            RuntimeError: If the event or its process no longer exists.
        """
        event = cls(interprocess=True)
        # Recording the event creates it in the runtime; no one waits for this recording.
        torch.Event.record(event, default_stream(device))
        _rustdev.event_open(event.event_id, handle)
        return event

    def ipc_handle(self) -> bytes:
        """Return the IPC handle of the event, for ``from_ipc_handle`` in another process.

        An event that was never recorded is bound to the current device.

        Raises:
            RuntimeError: If the event was created without ``interprocess=True``.
        """
        _refuse_in_fork_child()
        if not self._interprocess:
            raise RuntimeError("ipc_handle() needs an event that was made with interprocess=True")
        is_recorded = bool(self.event_id)
        if not is_recorded:
            torch.Event.record(self, current_stream())
        return _rustdev.event_share(self.event_id, is_recorded)

    def record(self, stream: torch.Stream | None = None) -> None:
        """Record the event in a stream. It captures all work submitted to the stream so far.

        Args:
            stream: Stream of the device on which the event was recorded before, if it was. Default: the current stream.
        """
        if stream is not None:
            _expect(torch.Stream, stream)
        super().record(stream)

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Make all future work submitted to a stream wait for the event.

        Args:
            stream: Stream of any device. Default: the current stream.
        """
        if stream is not None:
            _expect(torch.Stream, stream)
        if not self.event_id:
            waiting = current_stream() if stream is None else stream
            _rustdev.sanitizer_waits_for_nothing(waiting.device_index, waiting.stream_id)
        super().wait(stream)

    def query(self) -> bool:
        """Return whether all work captured by the event has completed; True for an event that was never recorded."""
        _refuse_in_fork_child()
        return super().query()

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Return the time in milliseconds from this event to ``end_event``.

        Args:
            end_event: Event that was recorded later.

        Raises:
            ValueError: If one of the events was created without timing or was not recorded.
            RuntimeError: If one of the events has not completed.
        """
        _expect(torch.Event, end_event)
        if not isinstance(end_event, Event):
            return super().elapsed_time(end_event)
        # The method of torch.Event rejects subclasses as its argument. These checks are the same as there.
        if not (self._timing and end_event._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if not (self.event_id and end_event.event_id):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end_event.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return _rustdev.event_elapsed(self.event_id, end_event.event_id)

    def __repr__(self) -> str:
        return f"<torch.{NAME}.Event {self.event_id:#x}>" if self.event_id else f"<torch.{NAME}.Event not recorded>"


def _wrap(stream_id: int, device_index: int) -> Stream:
    return Stream(stream_id=stream_id, device_index=device_index, device_type=_DEVICE_TYPE)


def current_stream(device: DeviceLike = None) -> Stream:
    """Return the calling thread's current stream of a device.

    Args:
        device: Selected device. Default: the current device.
    """
    index = _checked_device_index(device)
    return _wrap(torch._C._accelerator_getStream(index).stream_id, index)


def default_stream(device: DeviceLike = None) -> Stream:
    """Return the default stream of a device.

    Args:
        device: Selected device. Default: the current device.
    """
    _use()
    index = _checked_device_index(device)
    return _wrap(0, index)


def get_stream_from_external(data_ptr: int, device: DeviceLike = None) -> ExternalStream:
    """Return the stream that has a native handle.

    Args:
        data_ptr: Native handle, as for ``ExternalStream``.
        device: Device of the stream. Default: the current device.
    """
    return ExternalStream(data_ptr, device)


def set_stream(stream: torch.Stream | None) -> None:
    """Set the calling thread's current stream, and make the stream's device the current device.

    Args:
        stream: Selected stream. None is a no-op.
    """
    if stream is not None:
        _expect(torch.Stream, stream)
        torch._C._accelerator_setStream(stream)


class StreamContext:
    """Context manager that selects a stream: device work is submitted to it within the context.

    Args:
        stream: Selected stream. None is a no-op.
    """

    def __init__(self, stream: torch.Stream | None) -> None:
        if stream is not None:
            _expect(torch.Stream, stream)
        self.stream = stream
        self._previous: _ThreadStack[tuple[torch.Stream, ...]] = _ThreadStack()

    def __enter__(self) -> None:
        if self.stream is not None:
            # On exit, the first restores the current stream of the stream's device, the second the current device and its stream.
            self._previous.push((current_stream(self.stream.device), current_stream()))
            set_stream(self.stream)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        for stream in self._previous.pop() or ():
            set_stream(stream)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Return a context manager that selects a stream; see :class:`StreamContext`.

    Args:
        stream: Selected stream. None is a no-op.
    """
    return StreamContext(stream)


def launch_host_func(function: Callable[[], object], stream: torch.Stream | None = None) -> None:
    """Enqueue a call of a Python function on a stream. Later work of the stream waits until the function has returned.

    The function runs on another thread. If it raises, the next synchronizing call raises.

    Args:
        function: Callable without arguments. It must not wait for the stream that it runs on.
        stream: Selected stream. Default: the current stream.
    """
    _expect_callable(function)
    target = current_stream() if stream is None else stream
    _expect(torch.Stream, target)
    _rustdev.launch_host_func(_checked_device_index(target.device), target.stream_id, function)


def _sleep(cycles: int) -> None:
    """Keep the current stream busy, as a long kernel does, without occupying a thread.

    Args:
        cycles: Duration in cycles of the device's clock of 1 GHz, i.e. in nanoseconds.
    """
    target = current_stream()
    _rustdev.sleep(target.device_index, target.stream_id, cycles)
