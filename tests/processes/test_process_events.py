"""Interprocess events: a process that waits for one sees the work that precedes its recording."""

import time
from collections.abc import Iterator

import processes_workers as there
import pytest
import torch
from processes_workers import Worker

Event = torch.rustdev.Event
LONG = 300_000_000


@pytest.fixture
def tensor(spawned: Worker) -> Iterator[torch.Tensor]:
    """A tensor that the other process keeps as "x"."""
    tensor = torch.zeros(4, device="rustdev")
    spawned.call(there.keep, "x", tensor)
    yield tensor
    spawned.call(there.drop, "x")


def test_streams_of_another_process_wait(spawned: Worker, tensor: torch.Tensor) -> None:
    event = Event(interprocess=True)
    spawned.call(there.keep, "event", event)
    assert spawned.call(there.evaluate, "event.query()")
    for value in (1.0, 2.0):
        torch.rustdev._sleep(LONG)
        tensor.fill_(value)
        event.record()
        asked = "(event.query(), event.wait(), x.clone())[::2]"
        is_done, copy = spawned.call(there.evaluate, asked)
        assert (is_done, copy.tolist()) == (False, [value] * 4)


@pytest.mark.parametrize(
    "wait",
    ["torch.rustdev.current_stream().wait_event(event)", "torch.Stream.wait_event(torch.accelerator.current_stream(), event)"],
)
def test_every_way_to_wait_waits(spawned: Worker, tensor: torch.Tensor, wait: str) -> None:
    event = Event(interprocess=True)
    torch.rustdev._sleep(LONG)
    tensor.fill_(5)
    event.record()
    spawned.call(there.keep, "event", event)
    assert spawned.call(there.evaluate, f"({wait}, x.tolist())[1]") == [5.0] * 4


def test_the_host_waits_for_another_process(spawned: Worker, tensor: torch.Tensor) -> None:
    event = Event(interprocess=True)
    handle = event.ipc_handle()
    spawned.call(there.execute, f"event = torch.rustdev.Event.from_ipc_handle(0, {handle!r})")
    spawned.call(there.execute, f"torch.rustdev._sleep({LONG}); x.fill_(9); event.record()")
    assert not event.query()
    event.synchronize()
    assert event.query()
    assert tensor.tolist() == [9.0] * 4


def test_a_wait_is_for_the_recording_of_its_time(spawned: Worker) -> None:
    event = Event(interprocess=True)
    torch.rustdev._sleep(LONG)
    event.record()
    spawned.call(there.keep, "event", event)
    spawned.call(there.execute, "event.wait()")
    begin = time.monotonic()
    for _ in range(600):  # more than an event's page has entries
        event.record()
    spawned.call(there.evaluate, "torch.rustdev.synchronize()")
    assert time.monotonic() - begin < 60
    torch.rustdev.synchronize()
    assert spawned.call(there.evaluate, "event.query()")


def test_an_event_of_a_killed_process_fails_who_waits() -> None:
    worker = Worker()
    event = Event(interprocess=True)
    worker.call(there.keep, "event", event)
    worker.call(there.execute, "torch.rustdev._sleep(100_000_000_000); event.record()")
    side = torch.rustdev.Stream()
    side.wait_event(event)
    worker.kill()
    with pytest.raises(torch.AcceleratorError, match="ended before it reached an event"):
        side.synchronize()
    with pytest.raises(torch.AcceleratorError, match="ended before it reached an event"):
        event.synchronize()
    with torch.rustdev.stream(side):
        assert torch.ones(2, device="rustdev").tolist() == [1.0, 1.0]
    worker.close()


def test_other_uses_are_refused() -> None:
    with pytest.raises(RuntimeError, match="interprocess=True"):
        Event().ipc_handle()
    with pytest.raises(RuntimeError, match="enable_timing=False"):
        Event(enable_timing=True, interprocess=True)
    with pytest.raises(ValueError, match="a handle of rustdev has 32 bytes"):
        Event.from_ipc_handle(0, b"abc")
    event = Event(interprocess=True)
    handle = event.ipc_handle()
    assert len(handle) == 32
    assert handle == event.ipc_handle()
    del event
    with pytest.raises(RuntimeError, match="cannot be opened"):
        Event.from_ipc_handle(0, handle)


def test_captures_refuse_them() -> None:
    event = Event(interprocess=True)
    event.ipc_handle()
    graph = torch.rustdev.Graph()
    with pytest.raises(RuntimeError, match="captur"), torch.rustdev.graph(graph):
        event.record()
    event.record()
    event.synchronize()
