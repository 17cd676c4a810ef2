"""Streams: current, default, pool, priorities, native handles, waiting, and errors."""

from collections.abc import Callable

import pytest
import torch

Stream = torch.rustdev.Stream


def test_current_stream_is_the_default_one_at_first() -> None:
    assert torch.rustdev.current_stream() == torch.rustdev.default_stream()
    assert torch.rustdev.default_stream(1).device == torch.device("rustdev:1")
    assert torch.rustdev.default_stream(0) != torch.rustdev.default_stream(1)


def test_stream_is_a_torch_stream() -> None:
    stream = Stream()
    assert isinstance(stream, torch.Stream)
    assert isinstance(torch.rustdev.current_stream(), Stream)
    assert stream.device == torch.device("rustdev:0")
    assert Stream("rustdev:1").device == torch.device("rustdev:1")
    assert stream.device_index == 0
    assert "rustdev:0" in repr(stream)
    assert hex(stream.rustdev_stream) in repr(stream)


def test_pool_has_32_streams_of_each_priority() -> None:
    for priority in (0, -1):
        streams = [Stream(priority=priority) for _ in range(64)]
        assert len(set(streams)) == 32
        assert streams[:32] == streams[32:]
        assert {stream.priority for stream in streams} == {priority}


def test_priorities_are_clamped() -> None:
    low, high = Stream.priority_range()
    assert (low, high) == (0, -1)
    assert Stream(priority=7).priority == low
    assert Stream(priority=-7).priority == high
    assert torch.rustdev.default_stream().priority == low


def test_set_stream() -> None:
    stream = Stream(1)
    torch.rustdev.set_stream(stream)
    assert torch.rustdev.current_device() == 1
    assert torch.rustdev.current_stream() == stream
    torch.rustdev.set_stream(None)
    with torch.rustdev.stream(None):
        assert torch.rustdev.current_stream() == stream


def test_native_handle_names_the_stream() -> None:
    stream = Stream(1)
    assert stream.rustdev_stream == stream.native_handle != 0
    external = torch.rustdev.ExternalStream(stream.rustdev_stream, device=1, priority=-1)
    assert external.priority == 0
    assert external == stream
    assert isinstance(external, Stream)
    assert torch.rustdev.get_stream_from_external(stream.rustdev_stream, "rustdev:1") == stream
    handles = {Stream().rustdev_stream for _ in range(32)} | {torch.rustdev.default_stream().rustdev_stream}
    assert len(handles) == 33


def unknown() -> Stream:
    return Stream(stream_id=98765, device_index=0, device_type=Stream().device_type)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: Stream().wait_stream(5), TypeError, "expected a torch"),
        (lambda: Stream().wait_event(5), TypeError, "expected a torch"),
        (lambda: Stream().wait_event(Stream()), TypeError, "expected a torch"),
        (lambda: Stream().record_event(Stream()), TypeError, "expected a torch"),
        (lambda: torch.rustdev.set_stream("rustdev:0"), TypeError, "expected a torch"),
        (lambda: torch.rustdev.stream(3), TypeError, "expected a torch"),
        (lambda: torch.rustdev.launch_host_func(print, 3), TypeError, "expected a torch"),
        (lambda: torch.rustdev.launch_host_func(3), TypeError, "expected a function, got int"),
        (lambda: torch.rustdev.set_stream(torch.Stream("cpu")), RuntimeError, None),
        (lambda: torch.rustdev.launch_host_func(print, torch.Stream("cpu")), ValueError, "Expected a rustdev device, but got: cpu"),
        (lambda: torch.rustdev.ExternalStream(0), RuntimeError, "stream"),
        (lambda: torch.rustdev.ExternalStream(12345), RuntimeError, "stream"),
        (lambda: torch.rustdev.ExternalStream(Stream(1).rustdev_stream, device=0), RuntimeError, "stream"),
        (lambda: unknown().query(), RuntimeError, "no stream with the id 98765"),
        (lambda: unknown().synchronize(), RuntimeError, "no stream with the id 98765"),
        (lambda: unknown().record_event(), RuntimeError, "no stream with the id 98765"),
        (lambda: torch.rustdev.set_stream(unknown()), RuntimeError, "no stream with the id 98765"),
    ],
)
def test_wrong_uses_are_refused(call: Callable[[], object], error: type[Exception], text: str | None) -> None:
    with pytest.raises(error, match=text):
        call()
    assert torch.rustdev.current_stream() == torch.rustdev.default_stream()


def test_host_function_runs_in_stream_order() -> None:
    order: list[str] = []
    stream = Stream()
    with torch.rustdev.stream(stream):
        torch.rustdev._sleep(20_000_000)
        torch.rustdev.launch_host_func(lambda: order.append("first"))
    torch.rustdev.launch_host_func(lambda: order.append("second"), stream)
    assert order == []
    stream.synchronize()
    assert order == ["first", "second"]


def test_exception_in_a_host_function_is_raised_once_at_the_next_wait() -> None:
    def fail() -> None:
        raise KeyError("lost key")

    stream = Stream()
    torch.rustdev.launch_host_func(fail, stream)
    with pytest.raises(torch.AcceleratorError, match="lost key"):
        stream.synchronize()
    stream.synchronize()
    with torch.rustdev.stream(stream):
        assert torch.ones(3, device="rustdev").sum().item() == 3


def test_record_stream_of_another_device_is_refused_or_harmless() -> None:
    tensor = torch.ones(4, device="rustdev:0")
    tensor.record_stream(Stream(1))
    del tensor
    assert torch.ones(4, device="rustdev:0").sum().item() == 4


def test_torch_accelerator_sets_streams_and_waits_for_one_device() -> None:
    stream = torch.Stream("rustdev:1")
    torch.accelerator.set_stream(stream)
    assert torch.accelerator.current_stream() == torch.rustdev.current_stream() == stream
    assert torch.accelerator.current_device_index() == torch.rustdev.current_device() == 1
    assert torch.accelerator.current_stream("rustdev:0") == torch.rustdev.default_stream(0)
    torch.rustdev._sleep(20_000_000)
    torch.accelerator.synchronize("rustdev:0")
    assert not stream.query()
    torch.accelerator.synchronize("rustdev:1")
    assert stream.query()
