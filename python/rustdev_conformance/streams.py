"""Checks of streams, events, graphs and the profiler."""

import threading
from typing import Any

import torch

from rustdev_conformance.checks import Absent, Device, check, claimed

SIZE = 512


def new_stream(device: Device) -> torch.Stream:
    """Return a stream of the device."""
    device.need_accelerator()
    with claimed("streams", device, "Stream"):
        return torch.Stream(device=device.name)


def new_event(device: Device, **options: bool) -> torch.Event:
    """Return an event of the device that was recorded."""
    device.need_accelerator()
    with claimed("events", device, "Event"):
        event = torch.Event(device=device.name, **options)
        event.record()
        event.synchronize()
    return event


@check("streams/current")
def current(device: Device) -> None:
    stream = new_stream(device)
    before = torch.accelerator.current_stream()
    torch.accelerator.set_stream(stream)
    try:
        assert torch.accelerator.current_stream() == stream
    finally:
        torch.accelerator.set_stream(before)
    with stream:
        assert torch.accelerator.current_stream() == stream
    assert torch.accelerator.current_stream() == before


@check("streams/wait_stream")
def wait_stream(device: Device) -> None:
    stream = new_stream(device)
    value = torch.randn(SIZE, SIZE).to(device.name)
    expected = value.cpu()
    stream.wait_stream(torch.accelerator.current_stream())
    with stream:
        moved = value.clone()
        for _ in range(20):
            moved = moved + 1
    torch.accelerator.current_stream().wait_stream(stream)
    moved.record_stream(torch.accelerator.current_stream())
    torch.testing.assert_close((moved * 2).cpu(), (expected + 20) * 2)


@check("streams/synchronize")
def synchronize(device: Device) -> None:
    stream = new_stream(device)
    with stream:
        value = torch.ones(SIZE, SIZE, device=device.name).sum()
    stream.synchronize()
    assert stream.query(), "a stream is busy after synchronize()"
    assert value.item() == SIZE * SIZE


@check("streams/threads")
def threads(device: Device) -> None:
    stream, seen = new_stream(device), []
    with stream:
        thread = threading.Thread(target=lambda: seen.append(torch.accelerator.current_stream()))
        thread.start()
        thread.join()
    assert seen[0] != stream, "another thread has this thread's current stream"


@check("events/order")
def order(device: Device) -> None:
    stream = new_stream(device)
    new_event(device)
    event = torch.Event(device=device.name)
    with stream:
        value = torch.ones(SIZE, SIZE, device=device.name) @ torch.ones(SIZE, SIZE, device=device.name)
        event.record(stream)
    torch.accelerator.current_stream().wait_event(event)
    assert (value + 1)[0, 0].item() == SIZE + 1
    event.synchronize()
    assert event.query(), "an event is pending after synchronize()"


@check("events/elapsed_time")
def elapsed_time(device: Device) -> str:
    begin = new_event(device, enable_timing=True)
    end = torch.Event(device=device.name, enable_timing=True)
    begin.record()
    value = torch.ones(SIZE, SIZE, device=device.name)
    for _ in range(5):
        value = value @ value / SIZE
    end.record()
    end.synchronize()
    with claimed("elapsed_time", device):
        took = begin.elapsed_time(end)
    assert took >= 0, f"{took} ms"
    return f"{took:.3f} ms"


@check("events/never_recorded")
def never_recorded(device: Device) -> None:
    new_event(device)
    event = torch.Event(device=device.name)
    assert event.query(), "an event that was never recorded is pending"
    event.synchronize()


def captured(device: Device) -> Any:
    """Return a graph."""
    device.need_accelerator()
    kind = getattr(torch.accelerator, "Graph", None)
    if kind is None:
        raise Absent("torch.accelerator has no Graph")
    with claimed("graphs", device, "graph", "Graph", "make_graphed_callables"):
        return kind()


@check("graphs/replay")
def replay(device: Device) -> None:
    graph, stream = captured(device), new_stream(device)
    value = torch.ones(8, device=device.name)
    (value * 2 + 1).cpu()
    torch.accelerator.synchronize()
    with stream:
        graph.capture_begin()
        result = value * 2 + 1
        graph.capture_end()
    for number in (3.0, 5.0):
        value.fill_(number)
        torch.accelerator.synchronize()
        graph.replay()
        torch.accelerator.synchronize()
        assert result.cpu().tolist() == [2 * number + 1] * 8, f"{result.cpu().tolist()} of a replay with {number}"


@check("profiler/host_rows")
def host_rows(device: Device) -> None:
    value = torch.ones(SIZE, SIZE, device=device.name)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        value.mul(2)
        device.synchronize()
    assert any(it.key == "aten::mul" for it in profile.key_averages()), "there is no row of the call"


@check("profiler/device_rows")
def device_rows(device: Device) -> str:
    device.need_accelerator()
    host = torch.profiler.ProfilerActivity.CPU
    kinds = [it for it in torch.profiler.supported_activities() if it != host]
    if not kinds:
        raise Absent("the profiler supports no activities but the host's")
    value = torch.ones(SIZE, SIZE, device=device.name)
    with torch.profiler.profile(activities=[host, *kinds]) as profile:
        (value @ value).sum().item()
        device.synchronize()
    rows = [it for it in profile.events() if "CPU" not in str(it.device_type)]
    if not rows:
        assert not device.offered(["profiler"]), f"torch.{device.name} has profiler, and there are no rows of the device"
        raise Absent("the profiler shows no rows of the device")
    assert all(it.time_range.elapsed_us() >= 0 for it in rows)
    return f"{len(rows)} rows"
