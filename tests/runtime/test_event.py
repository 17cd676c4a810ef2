"""Events: recording, waiting, timing, across streams and devices, and errors."""

import gc
from collections.abc import Callable

import pytest
import torch

Event, Stream = torch.rustdev.Event, torch.rustdev.Stream

SHORT, LONG = 20_000_000, 60_000_000  # nanoseconds


def test_event_is_a_torch_event() -> None:
    event = Event()
    assert isinstance(event, torch.Event)
    assert isinstance(Stream().record_event(), Event)
    assert repr(event) == "<torch.rustdev.Event not recorded>"
    event.record()
    assert hex(event.event_id) in repr(event)


def test_never_recorded_event_is_done() -> None:
    event = Event(external=False)
    assert event.query()
    event.synchronize()
    event.wait()
    Stream().wait_event(event)
    torch.rustdev.synchronize()


def test_event_covers_only_what_was_submitted_before() -> None:
    event = Event()
    event.record()
    torch.rustdev._sleep(LONG)
    event.synchronize()
    assert not torch.rustdev.current_stream().query()
    event.record()
    assert not event.query(), "a recording replaces the one before"
    event.synchronize()
    assert event.query()
    assert torch.rustdev.current_stream().query()


def destroyed_while_pending(producer: Stream, consumer: Stream) -> None:
    event = Event(enable_timing=True)
    event.record(producer)
    event.wait(consumer)
    del event
    gc.collect()


@pytest.mark.parametrize(
    "wait",
    [
        lambda producer, consumer: consumer.wait_event(producer.record_event()),
        lambda producer, consumer: consumer.wait_stream(producer),
        destroyed_while_pending,
    ],
)
@pytest.mark.parametrize("device", [0, 1])
def test_streams_wait_for_each_other(device: int, wait: Callable[[Stream, Stream], None]) -> None:
    order: list[str] = []
    producer, consumer = Stream(0), Stream(device)
    with torch.rustdev.stream(producer):
        torch.rustdev._sleep(SHORT)
    torch.rustdev.launch_host_func(lambda: order.append("producer"), producer)
    wait(producer, consumer)
    torch.rustdev.launch_host_func(lambda: order.append("consumer"), consumer)
    consumer.synchronize()
    assert order == ["producer", "consumer"]


def test_elapsed_time() -> None:
    start, end = Event(enable_timing=True), Event(enable_timing=True)
    start.record()
    torch.rustdev._sleep(SHORT)
    end.record()
    end.synchronize()
    assert 19.0 <= start.elapsed_time(end) < 2000.0
    assert end.elapsed_time(start) == -start.elapsed_time(end)


def test_elapsed_time_resolves_microseconds() -> None:
    times = set()
    for _ in range(20):
        start, end = Event(enable_timing=True), Event(enable_timing=True)
        start.record()
        end.record()
        end.synchronize()
        times.add(start.elapsed_time(end))
    assert min(times) < 1.0
    assert len(times) > 1


def test_elapsed_time_of_an_event_not_done_is_refused() -> None:
    start, end = Event(enable_timing=True), Event(enable_timing=True)
    start.record()
    torch.rustdev._sleep(SHORT)
    end.record()
    with pytest.raises(RuntimeError, match="must be completed"):
        start.elapsed_time(end)
    end.synchronize()
    assert start.elapsed_time(end) > 0


def recorded(timing: bool = True, stream: torch.Stream | None = None) -> Event:
    """Return an event that is recorded and complete."""
    event = Event(enable_timing=timing)
    event.record(stream)
    event.synchronize()
    return event


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: recorded(timing=False).elapsed_time(recorded()), ValueError, "enable_timing=True"),
        (lambda: recorded().elapsed_time(recorded(timing=False)), ValueError, "enable_timing=True"),
        (lambda: recorded().elapsed_time(Event(enable_timing=True)), ValueError, "must be recorded"),
        (lambda: recorded(stream=Stream(0)).record(Stream(1)), RuntimeError, "does not match recording stream's device"),
        (lambda: Event().record(torch.Stream("cpu")), RuntimeError, "does not match"),
        (lambda: Event().record(3), TypeError, "expected a torch"),
        (lambda: Event().wait("rustdev"), TypeError, "expected a torch"),
        (lambda: Event().elapsed_time(4), TypeError, "expected a torch"),
    ],
)
def test_wrong_uses_are_refused(call: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
