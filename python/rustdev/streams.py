"""Streams and events: the order in which a device does its work, and how the host and other streams wait for it."""

import ctypes
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from typing_extensions import Self

from . import _rustdev
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
    """Refuse a wrong type before torch's base classes, which do not look, take it for the right one."""
    if not isinstance(value, kind):
        raise TypeError(f"expected a torch.{kind.__name__}, got {type(value).__name__}")


class Stream(torch.Stream):
    """A queue of device work that runs in the order of submission, apart from other streams.

    It is taken from a pool of 32 per device and priority, round robin, and lives as long as the process.

    Args:
        device: Default: the current one.
        priority: 0, or -1 to go before streams of priority 0; numbers outside are clamped.
    """

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **kwargs: Any) -> Self:  # noqa: D102
        if "stream_id" in kwargs:
            return super().__new__(cls, **kwargs)
        return super().__new__(cls, torch.device("rustdev", _checked_device_index(device)), priority=priority)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Return the lowest and the highest priority."""
        return 0, -1

    @property
    def priority(self) -> int:
        """0, or -1 for a stream that goes before those of priority 0."""
        return _rustdev.stream_priority(self.device_index, self.stream_id)

    @property
    def rustdev_stream(self) -> int:
        """The native handle, by which other libraries name the stream and ``ExternalStream`` finds it."""
        return self.native_handle  # type: ignore[attr-defined, no-any-return]

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.rustdev_stream)

    def wait_event(self, event: torch.Event) -> None:
        """Make what is submitted from now on wait for an event.

        Args:
            event: An event of this device or another; one that was never recorded makes nothing wait.
        """
        _expect(torch.Event, event)
        if not event.event_id:
            _rustdev.sanitizer_waits_for_nothing(self.device_index, self.stream_id)
        super().wait_event(event)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Make what is submitted from now on wait for all that another stream holds now.

        Args:
            stream: A stream of this device or another.
        """
        _expect(torch.Stream, stream)
        super().wait_stream(stream)

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Record an event behind all that was submitted so far.

        Args:
            event: Default: a new one.

        Returns:
            The event.
        """
        if event is None:
            event = Event()
        _expect(torch.Event, event)
        event.record(self)
        return event

    # torch.Stream keeps what it has to restore in one place for all threads.
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
        return f"<torch.rustdev.Stream device={self.device} rustdev_stream={self.rustdev_stream:#x}>"


class ExternalStream(Stream):
    """A stream named by its native handle.

    Args:
        stream_ptr: ``rustdev_stream`` of a stream, or what the C ABI's ``rd_stream_handle`` returned.
        device: The stream's device; default: the current one.
        priority: Taken for compatibility with ``torch.cuda``: the stream keeps its own.
    """

    def __new__(cls, stream_ptr: int, device: DeviceLike = None, *, priority: int = 0) -> Self:  # noqa: D102
        index = _checked_device_index(device)
        stream_id = _rustdev.stream_from_handle(index, stream_ptr)
        return super().__new__(cls, stream_id=stream_id, device_index=index, device_type=_DEVICE_TYPE)


class Event(torch.Event):
    """A point in a stream, to wait for and to measure between.

    Args:
        enable_timing: Whether ``elapsed_time`` can be asked.
        blocking: Taken for compatibility with ``torch.cuda``: ``synchronize`` always sleeps rather than spin for long.
        interprocess: Whether ``ipc_handle`` can be asked; not together with ``enable_timing``.
        external: Taken for compatibility with ``torch.cuda``, where it concerns the capture of graphs.

    Raises:
        RuntimeError: Both ``interprocess`` and ``enable_timing`` are set.
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
        event = super().__new__(cls, torch.device("rustdev"), enable_timing=enable_timing, blocking=blocking)
        event._timing = enable_timing
        event._interprocess = interprocess
        return event

    @classmethod
    def from_ipc_handle(cls, device: DeviceLike, handle: bytes) -> Self:
        """Return the event of another process.

        Args:
            device: The event's device.
            handle: What ``ipc_handle`` gave there. That process keeps its event until this is called.

        Raises:
            RuntimeError: The event or its process is gone.
        """
        event = cls(interprocess=True)
        # It exists from its first recording on, which nobody waits for.
        torch.Event.record(event, default_stream(device))
        _rustdev.event_open(event.event_id, handle)
        return event

    def ipc_handle(self) -> bytes:
        """Return what another process makes its event of, by ``from_ipc_handle``.

        An event that was never recorded belongs to the current device from then on.

        Raises:
            RuntimeError: The event was made without ``interprocess=True``.
        """
        _refuse_in_fork_child()
        if not self._interprocess:
            raise RuntimeError("ipc_handle() needs an event that was made with interprocess=True")
        is_recorded = bool(self.event_id)
        if not is_recorded:
            torch.Event.record(self, current_stream())
        return _rustdev.event_share(self.event_id, is_recorded)

    def record(self, stream: torch.Stream | None = None) -> None:
        """Record the event behind all that was submitted to a stream.

        Args:
            stream: A stream of the device where the event was recorded before, if it was; default: the current one.
        """
        if stream is not None:
            _expect(torch.Stream, stream)
        super().record(stream)

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Make what is submitted to a stream from now on wait for the event.

        Args:
            stream: A stream of any device; default: the current one.
        """
        if stream is not None:
            _expect(torch.Stream, stream)
        if not self.event_id:
            waiting = current_stream() if stream is None else stream
            _rustdev.sanitizer_waits_for_nothing(waiting.device_index, waiting.stream_id)
        super().wait(stream)

    def query(self) -> bool:
        """Return whether the point is reached; True for an event that was never recorded."""
        _refuse_in_fork_child()
        return super().query()

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Return the milliseconds between this event and a later one.

        Args:
            end_event: The later one.

        Raises:
            ValueError: An event was made without timing or not recorded.
            RuntimeError: An event is not done yet.
        """
        _expect(torch.Event, end_event)
        if not isinstance(end_event, Event):
            return super().elapsed_time(end_event)
        # torch's own method takes no subclass as its argument, so these are its checks.
        if not (self._timing and end_event._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if not (self.event_id and end_event.event_id):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end_event.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return _rustdev.event_elapsed(self.event_id, end_event.event_id)

    def __repr__(self) -> str:
        return f"<torch.rustdev.Event {self.event_id:#x}>" if self.event_id else "<torch.rustdev.Event not recorded>"


def _wrap(stream_id: int, device_index: int) -> Stream:
    return Stream(stream_id=stream_id, device_index=device_index, device_type=_DEVICE_TYPE)


def current_stream(device: DeviceLike = None) -> Stream:
    """Return this thread's current stream of a device.

    Args:
        device: Default: the current one.
    """
    index = _checked_device_index(device)
    return _wrap(torch._C._accelerator_getStream(index).stream_id, index)


def default_stream(device: DeviceLike = None) -> Stream:
    """Return the default stream of a device.

    Args:
        device: Default: the current one.
    """
    _use()
    index = _checked_device_index(device)
    return _wrap(torch.ops.rustdev.default_stream(index).stream_id, index)


def get_stream_from_external(data_ptr: int, device: DeviceLike = None) -> ExternalStream:
    """Return the stream that a native handle names.

    Args:
        data_ptr: The handle.
        device: The stream's device; default: the current one.
    """
    return ExternalStream(data_ptr, device)


def set_stream(stream: torch.Stream | None) -> None:
    """Make a stream this thread's current one of its device, and its device the current one.

    Args:
        stream: None changes nothing.
    """
    if stream is not None:
        _expect(torch.Stream, stream)
        torch._C._accelerator_setStream(stream)


class StreamContext:
    """Context manager in which work goes to a stream.

    Args:
        stream: None changes nothing.
    """

    def __init__(self, stream: torch.Stream | None) -> None:
        if stream is not None:
            _expect(torch.Stream, stream)
        self.stream = stream
        self._previous: _ThreadStack[tuple[torch.Stream, ...]] = _ThreadStack()

    def __enter__(self) -> None:
        if self.stream is not None:
            # Set in turn, these two restore the stream's device and then the device that was current.
            self._previous.push((current_stream(self.stream.device), current_stream()))
            set_stream(self.stream)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        for stream in self._previous.pop() or ():
            set_stream(stream)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Return a context manager in which work goes to a stream.

    Args:
        stream: None changes nothing.
    """
    return StreamContext(stream)


def launch_host_func(function: Callable[[], object], stream: torch.Stream | None = None) -> None:
    """Enqueue a call of a Python function; what is submitted behind it waits until the function has returned.

    It runs on another thread, and an exception in it makes the next synchronising call raise.

    Args:
        function: Called without arguments. It must not wait for the stream that it runs on.
        stream: Default: the current one.
    """
    _expect_callable(function)
    target = current_stream() if stream is None else stream
    _expect(torch.Stream, target)
    _rustdev.launch_host_func(_checked_device_index(target.device), target.stream_id, function)


def _sleep(cycles: int) -> None:
    """Keep the current stream busy, in place of a long kernel; no thread is.

    Args:
        cycles: For how many nanoseconds (the device's clock ticks at 1 GHz).
    """
    target = current_stream()
    _rustdev.sleep(target.device_index, target.stream_id, cycles)
