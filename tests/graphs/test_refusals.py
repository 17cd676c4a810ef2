"""Calls that cannot be captured: each raises an error with its name, the capture is invalidated, and the device keeps working."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from in_threads import in_thread

DEVICE = "rustdev"


def refused(body: Callable[[], object], match: str) -> None:
    """Check that a capture of `body` raises, that the graph holds nothing, and that the stream and the device work on."""
    graph, stream = torch.rustdev.Graph(), torch.rustdev.Stream()
    with pytest.raises(RuntimeError, match=match), torch.rustdev.graph(graph, stream=stream):
        body()
    assert not stream.is_capturing()
    with pytest.raises(RuntimeError, match="holds no capture"):
        graph.replay()
    with torch.rustdev.stream(stream):
        assert (torch.ones(3, device=DEVICE) + 1).sum().item() == 6.0
    with torch.rustdev.graph(graph, stream=stream):
        y = torch.ones(3, device=DEVICE) * 5
    graph.replay()
    torch.rustdev.synchronize()
    assert y.tolist() == [5.0] * 3


def refuse_and_raise(x: torch.Tensor) -> None:
    with pytest.raises(RuntimeError, match="item"):
        x.sum().item()
    raise ValueError("mine")


X = torch.arange(4.0)


#: Makes a call of which a capture is told that it cannot be captured, and what it is told.
WAITING: list[tuple[Callable[[torch.Tensor], Any], str]] = [
    (lambda x: x.sum().item(), r"item\(\).* is not permitted while a stream is capturing"),
    (lambda x: x.cpu(), "a copy to the CPU"),
    (lambda x: x.copy_(X), "a copy from the CPU"),
    (lambda x: x.copy_(X.pin_memory()), "a copy from the CPU"),
    (lambda x: bool(x.sum() > 0), r"item\(\)"),
    (lambda x: torch.nonzero(x), "nonzero.* is not permitted while a stream is capturing"),
    (lambda x: x[x > 1], "an index that is a mask"),
    (lambda x: torch.unique(x), "unique"),
    (lambda x: torch.equal(x, x + 1), "equal"),
    (lambda x: torch.bincount(x.long()), "bincount"),
    (lambda x: torch.histogram(x, 4), "a histogram without limits"),
    (lambda x: torch.repeat_interleave(x.long()), "repeat_interleave"),
    (lambda x: torch.tensor([1.0, 2.0], device=x.device), "a copy from the CPU"),
    (lambda x: torch.rustdev.synchronize(), "waiting for device rustdev:0"),
    (lambda x: torch.rustdev.current_stream().synchronize(), r"Stream.synchronize\(\)"),
    (lambda x: torch.rustdev.current_stream().query(), r"Stream.query\(\)"),
    (lambda x: torch.rustdev.current_stream().record_event().synchronize(), r"Event.synchronize\(\)"),
    (lambda x: torch.rustdev.current_stream().record_event().query(), r"Event.query\(\)"),
    (lambda x: torch.rustdev.manual_seed(3), "seeding a generator"),
    (lambda x: torch.rustdev.current_stream().wait_stream(torch.rustdev.default_stream()), "outside of the capture"),
    (lambda x: torch.linalg.eigh(x.diag()), "linalg_eigh.* is not permitted while a stream is capturing"),
]


@pytest.mark.parametrize(("body", "match"), WAITING)
def test_calls_that_wait(body: Callable[[torch.Tensor], object], match: str) -> None:
    x = torch.arange(4.0, device=DEVICE)
    torch.rustdev.set_fallback_mode("allow")
    torch.rustdev.synchronize()
    refused(lambda: body(x), match)


def test_replay_inside_a_capture() -> None:
    graph, x = torch.rustdev.Graph(), torch.zeros(1, device=DEVICE)
    with torch.rustdev.graph(graph):
        x += 1
    refused(graph.replay, r"Graph.replay\(\)")


def test_the_error_of_the_block_is_the_one_that_is_raised() -> None:
    for capture in (torch.rustdev.graph(torch.rustdev.Graph()), torch.rustdev.Graph()):
        x = torch.ones(3, device=DEVICE)
        with pytest.raises(ValueError, match="mine"), torch.rustdev.Stream(), capture:
            refuse_and_raise(x)
        assert x.sum().item() == 3.0


def test_an_error_that_is_caught_invalidates_the_capture() -> None:
    x = torch.ones(1, device=DEVICE)
    with (
        pytest.raises(RuntimeError, match=r"the capture was invalidated: item\(\)"),
        torch.rustdev.graph(torch.rustdev.Graph()),
        pytest.raises(RuntimeError, match="item"),
    ):
        x.item()


def test_optimizers_that_are_not_capturable() -> None:
    x = torch.ones(3, device=DEVICE, requires_grad=True)
    optimizer = torch.optim.Adam([x])
    x.grad = torch.ones_like(x)
    optimizer.step()
    with pytest.raises(RuntimeError, match="capturable"), torch.rustdev.graph(torch.rustdev.Graph()):
        optimizer.step()


def test_a_forked_stream_that_is_not_joined() -> None:
    side = torch.rustdev.Stream()
    graph = torch.rustdev.Graph()
    x = torch.ones(3, device=DEVICE)

    def fork() -> None:
        side.wait_stream(torch.rustdev.current_stream())
        with torch.rustdev.stream(side):
            x.neg()

    with pytest.raises(RuntimeError, match="was not joined"), torch.rustdev.graph(graph):
        fork()
    assert not side.is_capturing()
    side.synchronize()


def test_calls_in_the_wrong_order(tmp_path: Path) -> None:
    graph, x = torch.rustdev.Graph(), torch.zeros(1, device=DEVICE)

    def wrong(call: Callable[[], object], text: str, error: type[Exception] = RuntimeError) -> None:
        with pytest.raises(error, match=text):
            call()

    wrong(graph.replay, "replay: this graph holds no capture")
    wrong(graph.pool, "pool: this graph holds no capture")
    wrong(lambda: graph.debug_dump(str(tmp_path / "x")), "debug_dump: this graph holds no capture")
    wrong(graph.capture_end, "capture_end: this graph is not capturing")
    wrong(lambda: graph.capture_begin(pool=(7, 1)), r"capture_begin: \(7, 1\) is not the name of a memory pool")
    with torch.rustdev.stream(torch.rustdev.Stream()):
        graph.capture_begin()
        wrong(torch.rustdev.Graph().capture_begin, "is capturing already")
        x += 1
        graph.capture_end()
        wrong(graph.capture_begin, "this graph holds a capture")
    wrong(lambda: graph.debug_dump(str(tmp_path / "missing" / "x.dot")), "debug_dump: cannot write")
    wrong(lambda: torch.rustdev.graph(3), "expected a torch.rustdev.Graph", TypeError)
    graph.replay()
    assert x.item() == 1.0


def test_a_capture_ends_on_its_stream_and_thread() -> None:
    graph, stream = torch.rustdev.Graph(), torch.rustdev.Stream()
    x = torch.zeros(1, device=DEVICE)

    def end() -> None:
        with torch.rustdev.stream(stream):
            graph.capture_end()

    with torch.rustdev.stream(stream):
        graph.capture_begin()
        x += 1
    with pytest.raises(RuntimeError, match="another stream"):
        graph.capture_end()
    with pytest.raises(RuntimeError, match="on the thread that began it"):
        in_thread(end)
    end()
    graph.replay()
    assert x.item() == 1.0


def test_global_captures_keep_other_threads_from_waiting_for_the_device() -> None:
    capture = torch.rustdev.graph(torch.rustdev.Graph(), capture_error_mode="global")
    refusal = pytest.raises(RuntimeError, match="waiting for device rustdev:0 is not permitted")
    with pytest.raises(RuntimeError, match="invalidated: waiting for device"), capture, refusal:
        in_thread(torch.rustdev.synchronize)


def test_a_graph_that_goes_while_it_captures_frees_its_stream() -> None:
    stream = torch.rustdev.Stream()
    x = torch.zeros(1, device=DEVICE)
    stream.wait_stream(torch.rustdev.current_stream())
    graph = torch.rustdev.Graph()
    with torch.rustdev.stream(stream):
        graph.capture_begin()
        x += 1
        del graph
        assert not stream.is_capturing()
        x += 5
    stream.synchronize()
    assert x.item() == 5.0


def allocate(size: int) -> None:
    torch.ones(2, device=DEVICE).neg_()
    torch.empty(size, dtype=torch.uint8, device=DEVICE)


def test_out_of_memory_in_a_capture() -> None:
    refused_size = torch.rustdev.mem_get_info()[1] * 2
    graph = torch.rustdev.Graph()
    with pytest.raises(torch.OutOfMemoryError), torch.rustdev.graph(graph):
        allocate(refused_size)
    assert torch.ones(2, device=DEVICE).sum().item() == 2.0
