"""The device guard, by its uses in PyTorch: contexts that set a device or a stream, threads, futures, autograd, events.

tests/runtime/ tests streams, events and devices themselves.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest
import torch
from in_threads import in_thread

Stream = torch.rustdev.Stream
MILLISECOND = 1_000_000

State = tuple[int, torch.Stream, torch.Stream]


def state() -> State:
    """Return what a block may change: the current device, and the current stream of each."""
    return torch.rustdev.current_device(), torch.rustdev.current_stream(0), torch.rustdev.current_stream(1)


BLOCKS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "rustdev.device": lambda: torch.rustdev.device(1),
    "rustdev.device_of": lambda: torch.rustdev.device_of(torch.empty(1, device="rustdev:1")),
    "accelerator.device_index": lambda: torch.accelerator.device_index(1),
    "rustdev.stream": lambda: torch.rustdev.stream(Stream(1)),
    "rustdev.Stream": lambda: Stream(1),
    "torch.Stream": lambda: torch.Stream("rustdev:1"),
}


@pytest.fixture(params=BLOCKS)
def block(request: pytest.FixtureRequest) -> AbstractContextManager[object]:
    """Each kind of block that sets the device, or a stream of device 1 and with it the device."""
    return BLOCKS[request.param]()


@pytest.fixture
def start() -> State:
    """A state that no block of these tests sets: device 0, and streams that are not the default ones."""
    torch.rustdev.set_stream(Stream(1))
    torch.rustdev.set_stream(Stream(0))
    return state()


def test_blocks_set_and_restore(block: AbstractContextManager[object], start: State) -> None:
    with block:
        assert torch.rustdev.current_device() == 1
        assert torch.empty(1, device="rustdev").device.index == 1
        with torch.rustdev.device(0), torch.rustdev.stream(Stream(0)), torch.Stream("cpu"):
            pass
        assert torch.rustdev.current_device() == 1
        assert torch.rustdev.current_stream(0) == start[1]
    assert state() == start
    with pytest.raises(KeyError), block:
        raise KeyError
    assert state() == start

    def run() -> State:
        torch.rustdev.set_stream(other)
        with block:
            assert torch.rustdev.current_device() == 1
        return state()

    other = Stream(0)
    assert in_thread(run) == (0, other, torch.rustdev.default_stream(1))
    assert state() == start


# torch.accelerator.device_index remembers one device, so that it cannot be entered twice.
@pytest.mark.parametrize("name", [name for name in BLOCKS if name != "accelerator.device_index"])
def test_blocks_nest_in_themselves(name: str, start: State) -> None:
    block = BLOCKS[name]()
    with block:
        inside = state()
        with block:
            assert state() == inside
        assert state() == inside
    assert state() == start


@pytest.mark.parametrize("name", ["rustdev.device", "rustdev.stream", "rustdev.Stream"])
def test_one_object_entered_by_two_threads_at_once(name: str, start: State) -> None:
    block, first, second, left, other = BLOCKS[name](), threading.Event(), threading.Event(), threading.Event(), Stream(0)

    def run() -> State:
        torch.rustdev.set_stream(other)
        assert first.wait(60)
        with block:
            second.set()
            assert left.wait(60)
        return state()

    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(run)
        with block:
            first.set()
            assert second.wait(60)
        assert state() == start
        left.set()
        assert result.result() == (0, other, torch.rustdev.default_stream(1))


def test_a_block_left_by_a_thread_that_did_not_enter_it_changes_nothing_there(start: State) -> None:
    block = torch.rustdev.stream(Stream(1))
    block.__enter__()
    inside = state()
    default = (0, torch.rustdev.default_stream(0), torch.rustdev.default_stream(1))

    def leave() -> State:
        block.__exit__(None, None, None)
        return state()

    assert in_thread(leave) == default
    assert state() == inside
    block.__exit__(None, None, None)
    assert state() == start


def test_operators_run_on_their_tensors_device_and_stream(start: State) -> None:
    tensor = torch.zeros(4, device="rustdev:1")
    with torch.rustdev.stream(Stream(1)):
        torch.rustdev._sleep(200 * MILLISECOND)
        busy = torch.rustdev.current_stream()
        with torch.rustdev.device(0):
            result = tensor.add(1)
            assert torch.rustdev.current_device() == 0
        assert not busy.query(), "the addition belongs behind the sleep"
    busy.synchronize()
    assert result.tolist() == [1.0] * 4
    assert state() == start


def test_backward_runs_on_the_streams_of_forward(start: State) -> None:
    seen: list[tuple[int, torch.Stream]] = []

    class Note(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
            seen.append((torch.rustdev.current_device(), torch.rustdev.current_stream()))
            return gradient * 2

    leaf, stream = torch.ones(3, device="rustdev:1", requires_grad=True), Stream(1)
    with torch.rustdev.stream(stream):
        torch.rustdev._sleep(20 * MILLISECOND)
        output = Note.apply(leaf)
    torch.rustdev.current_stream(1).wait_stream(stream)
    (output.to("rustdev:0") * torch.arange(3.0, device="rustdev:0")).sum().backward()
    assert seen == [(1, stream)]
    assert leaf.grad.tolist() == [0.0, 2.0, 4.0]
    assert state() == start


def test_futures_order_streams_and_keep_memory(start: State) -> None:
    def later(done: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
        streams.append(torch.rustdev.current_stream())
        return done.value() + 1

    streams: list[torch.Stream] = []
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future(devices=["rustdev:0"])
    chained = future.then(later)
    producer = Stream(0)
    with torch.rustdev.stream(producer):
        torch.rustdev._sleep(200 * MILLISECOND)
        tensor = torch.full((1024,), 3.0, device="rustdev")
        future.set_result(tensor)
    address = tensor.data_ptr()
    del tensor, future
    result = chained.wait()
    with torch.rustdev.stream(producer):
        other = torch.zeros(1024, device="rustdev")
    assert other.data_ptr() != address, "the callback's stream still reads the block"
    assert streams[0] not in (producer, start[1], torch.rustdev.default_stream(0)), "a stream of the pool"
    assert not streams[0].query(), "waiting for a future must not block the host"
    assert result.tolist() == [4.0] * 1024
    assert state() == start
