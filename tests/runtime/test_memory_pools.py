"""User-defined memory pools: which allocations use them, how long their memory is kept, and their use by graphs."""

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import pytest
import torch
from in_threads import in_thread, in_threads

MIB = 1 << 20
MemPool = torch.rustdev.MemPool
use_mem_pool = torch.rustdev.use_mem_pool


@pytest.fixture(autouse=True)
def _fresh_memory() -> Iterator[None]:
    """Let each test start with an empty cache."""
    gc.collect()
    torch.rustdev.synchronize()
    torch.rustdev.empty_cache()
    yield
    torch.rustdev.synchronize()


def tensor(mib: int, device: str = "rustdev") -> torch.Tensor:
    return torch.empty(mib * MIB, dtype=torch.uint8, device=device)


def pool_of(value: torch.Tensor) -> tuple[int, int]:
    """The name of the pool whose segment holds a tensor."""
    address = value.data_ptr()
    for segment in torch.rustdev.memory_snapshot():
        if segment["address"] <= address < segment["address"] + segment["total_size"]:
            return tuple(segment["segment_pool_id"])
    raise AssertionError(f"no segment holds {address:#x}")


def sizes(segments: list[dict[str, Any]]) -> list[int]:
    return sorted(segment["total_size"] // MIB for segment in segments)


def test_a_block_takes_its_memory_from_the_pool() -> None:
    pool = MemPool()
    before = tensor(30)
    with use_mem_pool(pool):
        small, large = torch.ones(3, device="rustdev"), tensor(30)
        total = small + small
    after = tensor(30)
    assert [pool_of(value) for value in (before, small, large, total, after)] == [(0, 0), pool.id, pool.id, pool.id, (0, 0)]
    assert total.tolist() == [2, 2, 2]
    assert sizes(pool.snapshot()) == [2, 30] == sizes(torch.rustdev.memory_snapshot(pool.id))
    assert {segment["segment_pool_id"] for segment in pool.snapshot(include_traces=False)} == {pool.id}


def test_free_memory_of_the_pool_serves_it_again_and_nobody_else() -> None:
    pool = MemPool()
    with use_mem_pool(pool):
        address = tensor(30).data_ptr()
    assert tensor(30).data_ptr() != address
    torch.rustdev.empty_cache()
    assert sizes(pool.snapshot()) == [30]
    with use_mem_pool(pool):
        assert tensor(30).data_ptr() == address


def test_blocks_nest_and_the_same_pool_may_be_used_twice() -> None:
    outer, inner = MemPool(None, False, False), MemPool(use_on_oom=False, no_split=False)
    assert (outer.allocator, outer.id[0], outer.use_count()) == (None, 0, 1)
    found = []
    with use_mem_pool(outer):
        with use_mem_pool(inner):
            with use_mem_pool(outer):
                found.append(pool_of(tensor(1)))
                assert (outer.use_count(), inner.use_count()) == (3, 2)
            found.append(pool_of(tensor(1)))
        found.append(pool_of(tensor(1)))
        with pytest.raises(ZeroDivisionError), use_mem_pool(inner):
            _ = 1 // 0
        found.append(pool_of(tensor(1)))
    found.append(pool_of(tensor(1)))
    assert found == [outer.id, inner.id, outer.id, outer.id, (0, 0)]
    assert (outer.use_count(), inner.use_count()) == (1, 1)


def test_a_block_concerns_one_thread() -> None:
    pool, other = MemPool(), MemPool()
    found = {}

    def work() -> None:
        found["plain"] = pool_of(tensor(1))
        with use_mem_pool(other):
            entered.set()
            left.wait(20)
            found["chosen"] = pool_of(tensor(1))

    entered, left = threading.Event(), threading.Event()
    thread = threading.Thread(target=work)
    with use_mem_pool(pool):
        thread.start()
        entered.wait(20)
        mine = pool_of(tensor(1))
    left.set()
    thread.join()
    assert (mine, found) == (pool.id, {"plain": (0, 0), "chosen": other.id})
    assert pool_of(tensor(1)) == (0, 0)


def test_many_threads_use_pools_at_once() -> None:
    shared = MemPool()
    wrong = []

    def work(number: int) -> None:
        own = MemPool()
        for turn in range(50):
            with use_mem_pool(shared if turn % 3 else own):
                value = torch.full((1000,), number, device="rustdev")
                if not bool((value == number).all()):
                    wrong.append(number)

    in_threads(work, range(6))
    assert (wrong, shared.use_count()) == ([], 1)


def test_the_backward_pass_uses_the_pool_of_the_thread_that_calls_it() -> None:
    weight = torch.ones(100, device="rustdev", requires_grad=True)
    pool = MemPool()
    with use_mem_pool(pool):
        (weight * 2).sum().backward()
    assert weight.grad is not None
    assert pool_of(weight.grad) == pool.id


def test_a_pool_serves_the_devices_that_it_is_used_for() -> None:
    pool = MemPool()
    with use_mem_pool(pool, "rustdev:1"):
        assert [pool_of(tensor(1, f"rustdev:{index}")) for index in (0, 1)] == [(0, 0), pool.id]
        with use_mem_pool(pool, 0):
            kept = [tensor(30, f"rustdev:{index}") for index in (0, 1)]
    assert [pool_of(value) for value in kept] == [pool.id, pool.id]
    assert sorted(segment["device"] for segment in pool.snapshot() if segment["total_size"] == 30 * MIB) == [0, 1]


def test_streams_have_their_own_memory_of_a_pool() -> None:
    pool, stream = MemPool(), torch.rustdev.Stream()
    with use_mem_pool(pool):
        address = tensor(30).data_ptr()
        with torch.rustdev.stream(stream):
            value = tensor(30)
    assert value.data_ptr() != address
    assert {segment["stream"] for segment in pool.snapshot()} == {torch.rustdev.current_stream().stream_id, stream.stream_id}


def test_tensors_outlive_the_pool_and_its_memory_goes_with_the_last() -> None:
    reserved = torch.rustdev.memory_reserved()
    pool = MemPool()
    name = pool.id
    with use_mem_pool(pool):
        kept, other = torch.full((4 * MIB,), 7.0, device="rustdev"), tensor(30)
        gone = tensor(40)
    del gone
    torch.rustdev.synchronize()
    assert torch.rustdev.memory_reserved() == reserved + 86 * MIB
    del pool
    assert sizes(torch.rustdev.memory_snapshot(name)) == [16, 30]
    assert (kept == 7).all()
    del other
    assert sizes(torch.rustdev.memory_snapshot(name)) == [16]
    assert kept.sum().item() == 7 * 4 * MIB
    del kept
    assert torch.rustdev.memory_snapshot(name) == []


def test_memory_that_tasks_use_waits_for_them() -> None:
    pool = MemPool()
    name = pool.id
    with use_mem_pool(pool):
        value = tensor(30)
    gate = threading.Event()
    torch.rustdev.launch_host_func(gate.wait)
    value.fill_(1)
    del value, pool
    assert sizes(torch.rustdev.memory_snapshot(name)) == [30]
    gate.set()
    torch.rustdev.empty_cache()
    assert torch.rustdev.memory_snapshot(name) == []


def test_a_block_keeps_a_pool_in_use_whose_object_is_gone() -> None:
    pool = MemPool()
    name = pool.id
    with use_mem_pool(pool):
        del pool
        gc.collect()
        address = tensor(30).data_ptr()
        assert tensor(30).data_ptr() == address
        assert sizes(torch.rustdev.memory_snapshot(name)) == [30]
    assert torch.rustdev.memory_snapshot(name) == []


@pytest.mark.parametrize("no_split", [False, True])
def test_no_split_gives_whole_segments(no_split: bool) -> None:
    pool = MemPool(no_split=no_split)
    with use_mem_pool(pool):
        kept = [torch.ones(10, device="rustdev") for _ in range(3)]
        large = [tensor(3), tensor(3)]
        wide = tensor(30)
        address = wide.data_ptr()
        del wide
        narrow = tensor(20)
    assert narrow.data_ptr() == address
    assert [value.sum().item() for value in kept] == [10, 10, 10]
    assert len(large) == 2
    assert sizes(pool.snapshot()) == ([2, 2, 2, 20, 20, 30] if no_split else [2, 20, 30])
    blocks = [block for segment in pool.snapshot() for block in segment["blocks"]]
    assert (len(blocks) == 6) == no_split


graphs = pytest.mark.skipif(not hasattr(torch.accelerator, "Graph"), reason="this torch has no graphs of accelerators")


def capture_begin(graph: torch.rustdev.Graph, pool: MemPool) -> AbstractContextManager[object]:
    """Capture between calls."""
    stack = ExitStack()
    stack.enter_context(torch.rustdev.stream(torch.rustdev.Stream()))
    graph.capture_begin(pool=pool)
    stack.callback(graph.capture_end)
    return stack


@graphs
@pytest.mark.parametrize(
    "capture",
    [
        lambda graph, pool: torch.rustdev.graph(graph, pool=pool),
        lambda graph, pool: torch.rustdev.graph(graph, pool=pool.id),
        capture_begin,
    ],
)
def test_a_graph_takes_its_memory_from_a_pool_and_keeps_it(
    capture: Callable[[torch.rustdev.Graph, MemPool], AbstractContextManager[object]],
) -> None:
    pool, graph = MemPool(), torch.rustdev.Graph()
    name = pool.id
    x = torch.arange(4.0, device="rustdev")
    torch.rustdev.synchronize()
    with capture(graph, pool):
        y = x * 2 + 1
    assert (graph.pool(), pool.use_count(), pool_of(y)) == (name, 2, name)
    del pool
    x += 1
    graph.replay()
    assert y.tolist() == [3, 5, 7, 9]
    graph.reset()
    torch.rustdev.synchronize()
    del y
    assert torch.rustdev.memory_snapshot(name) == []


@graphs
def test_other_ways_to_name_the_pool_of_a_graph() -> None:
    pool = MemPool()
    one = torch.rustdev.Graph(pool=pool)
    with torch.rustdev.stream(torch.rustdev.Stream()), one:
        _ = torch.ones(3, device="rustdev") * 2
    other = torch.rustdev.Graph()
    with torch.rustdev.stream(torch.rustdev.Stream()):
        other.capture_begin(pool=pool)
        _ = torch.ones(3, device="rustdev") * 2
        other.capture_end()
    assert (one.pool(), other.pool()) == (pool.id, pool.id)
    layer = torch.nn.Linear(3, 3).rustdev()
    call = torch.rustdev.make_graphed_callables(layer, (torch.ones(2, 3, device="rustdev"),), pool=pool)
    assert pool_of(call(torch.zeros(2, 3, device="rustdev"))) == pool.id


@graphs
def test_the_last_of_capture_and_block_counts() -> None:
    pool, graph = MemPool(), torch.rustdev.Graph()
    x = torch.ones(4, device="rustdev")
    with use_mem_pool(pool):
        with torch.rustdev.graph(graph):
            own = x * 2
            with use_mem_pool(pool):
                chosen = x * 3
            again = x * 4
        outside = x * 5
    assert [pool_of(value) for value in (own, chosen, again, outside)] == [graph.pool(), pool.id, graph.pool(), pool.id]
    assert graph.pool() != pool.id


@graphs
def test_a_graph_keeps_the_pool_that_it_took_memory_from() -> None:
    pool, graph = MemPool(), torch.rustdev.Graph()
    name = pool.id
    x = torch.ones(4, device="rustdev")
    with torch.rustdev.graph(graph):
        with use_mem_pool(pool):
            between = x * 2
        y = between + 1
        del between
    assert pool.use_count() == 2
    del pool
    torch.rustdev.empty_cache()
    assert sizes(torch.rustdev.memory_snapshot(name)) == [2]
    x.fill_(3)
    graph.replay()
    assert y.tolist() == [7, 7, 7, 7]
    del graph
    torch.rustdev.synchronize()
    assert torch.rustdev.memory_snapshot(name) == []


def test_what_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="allocator of one's own"):
        MemPool(allocator=object())
    with pytest.raises(TypeError, match=r"expected a torch\.rustdev\.MemPool, got tuple"), use_mem_pool((0, 1)):
        pass
    with pytest.raises(ValueError, match="Expected a rustdev device"), use_mem_pool(MemPool(), "cpu"):
        pass
    with pytest.raises(RuntimeError, match="invalid device ordinal 99"), use_mem_pool(MemPool(), 99):
        pass
    assert pool_of(tensor(1)) == (0, 0)


def test_a_block_that_ends_on_another_thread_says_so() -> None:
    pool = MemPool()
    block = use_mem_pool(pool)
    in_thread(block.__enter__)
    with pytest.raises(RuntimeError, match="this thread's memory of rustdev:0 does not come from pool"):
        block.__exit__(None, None, None)
    assert pool_of(tensor(1)) == (0, 0)
    deadline = time.monotonic() + 20
    while pool.use_count() > 1 and time.monotonic() < deadline:  # the system ends the thread after Python has
        time.sleep(0.001)
    assert pool.use_count() == 1
