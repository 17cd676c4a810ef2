"""Events: recording, waiting, timing, across streams and devices, and errors."""

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


def test_query_and_synchronize() -> None:
    event = Event()
    torch.rustdev._sleep(SHORT)
    event.record()
    assert not event.query()
    event.synchronize()
    assert event.query()


def test_event_covers_only_what_was_submitted_before() -> None:
    event = Event()
    event.record()
    torch.rustdev._sleep(LONG)
    event.synchronize()
    assert not torch.rustdev.current_stream().query()


def test_record_again_replaces_the_point() -> None:
    event = Event()
    event.record()
    event.synchronize()
    torch.rustdev._sleep(SHORT)
    event.record()
    assert not event.query()
    event.synchronize()
    assert torch.rustdev.current_stream().query()


@pytest.mark.parametrize("device", [0, 1])
def test_event_orders_two_streams(device: int) -> None:
    order: list[str] = []
    producer, consumer = Stream(0), Stream(device)
    with torch.rustdev.stream(producer):
        torch.rustdev._sleep(SHORT)
    torch.rustdev.launch_host_func(lambda: order.append("producer"), producer)
    consumer.wait_event(producer.record_event())
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


def test_elapsed_time_without_timing_is_refused() -> None:
    start, end = Event(), Event(enable_timing=True)
    start.record()
    end.record()
    torch.rustdev.synchronize()
    with pytest.raises(ValueError, match="enable_timing=True"):
        start.elapsed_time(end)
    with pytest.raises(ValueError, match="enable_timing=True"):
        end.elapsed_time(start)


def test_elapsed_time_of_an_event_never_recorded_is_refused() -> None:
    start, end = Event(enable_timing=True), Event(enable_timing=True)
    start.record()
    with pytest.raises(ValueError, match="must be recorded"):
        start.elapsed_time(end)


def test_elapsed_time_of_an_event_not_done_is_refused() -> None:
    start, end = Event(enable_timing=True), Event(enable_timing=True)
    start.record()
    torch.rustdev._sleep(SHORT)
    end.record()
    with pytest.raises(RuntimeError, match="must be completed"):
        start.elapsed_time(end)
    end.synchronize()
    assert start.elapsed_time(end) > 0


def test_record_on_a_stream_of_another_device_is_refused() -> None:
    event = Event()
    event.record(Stream(0))
    with pytest.raises(RuntimeError, match="does not match recording stream's device"):
        event.record(Stream(1))
    event.record(Stream(0))
    event.synchronize()


def test_record_on_a_cpu_stream_is_refused() -> None:
    with pytest.raises(RuntimeError, match="does not match"):
        Event().record(torch.Stream("cpu"))


def test_wrong_types_are_refused() -> None:
    for call in (lambda: Event().record(3), lambda: Event().wait("rustdev"), lambda: Event().elapsed_time(4)):
        with pytest.raises(TypeError, match="expected a torch"):
            call()
