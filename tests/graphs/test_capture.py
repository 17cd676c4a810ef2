"""Capture and replay: values, streams, events, pools and memory."""

import gc
from pathlib import Path

import pytest
import torch
from in_threads import in_thread

DEVICE = "rustdev"


def test_capture_runs_nothing_and_each_replay_everything() -> None:
    x = torch.zeros(4, device=DEVICE)
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        assert torch.rustdev.is_current_stream_capturing()
        x += 1
        y = x * 2
    assert not torch.rustdev.is_current_stream_capturing()
    assert x.tolist() == [0.0] * 4
    for turn in range(1, 4):
        graph.replay()
        assert (x.tolist(), y.tolist()) == ([float(turn)] * 4, [2.0 * turn] * 4)
    x.fill_(10)
    graph.replay()
    assert y.tolist() == [22.0] * 4


def test_the_graphs_of_torch_accelerator() -> None:
    assert torch.rustdev.RustdevGraph is torch.rustdev.Graph
    assert issubclass(torch.rustdev.Graph, torch.accelerator.Graph)
    x = torch.zeros(3, device=DEVICE)
    graph, stream = torch.accelerator.Graph(), torch.Stream(DEVICE)
    with stream, graph:
        x += 1
    graph.replay()
    graph.replay()
    assert x.tolist() == [2.0] * 3
    other = torch.accelerator.Graph(pool=graph.pool())
    with stream, other:
        x *= 10
    other.replay()
    assert x.tolist() == [20.0] * 3
    assert graph.pool() == other.pool()
    kept = torch.rustdev.Graph(keep_graph=True)
    with torch.rustdev.stream(torch.rustdev.Stream()):
        kept.capture_begin(pool=torch.rustdev.graph_pool_handle(), capture_error_mode="relaxed")
        x += 1
        torch.rustdev.synchronize()
        kept.capture_end()
    kept.instantiate()
    kept.replay()
    assert x.tolist() == [21.0] * 3
    with pytest.raises(RuntimeError, match="keep_graph=True"):
        captured_addition()[0].instantiate()
    kept.reset()
    with pytest.raises(RuntimeError, match="replay: this graph holds no capture"):
        kept.replay()
    with torch.rustdev.graph(kept):
        y = x - 1
    kept.replay()
    assert y.tolist() == [20.0] * 3


def captured_addition() -> tuple[torch.rustdev.Graph, torch.Tensor, torch.Tensor]:
    """Return a graph that adds 1, what it reads and what it writes."""
    x = torch.zeros(1000, device=DEVICE)
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        y = x + 1
    return graph, x, y


def test_replay_runs_on_the_current_stream_behind_what_is_there() -> None:
    graph, x, y = captured_addition()
    stream = torch.rustdev.Stream()
    with torch.rustdev.stream(stream):
        torch.rustdev._sleep(20_000_000)
        x.fill_(5)
        graph.replay()
        assert not stream.query()
    graph_stream_done = torch.rustdev.current_stream().query()
    stream.synchronize()
    assert graph_stream_done
    assert y[0].item() == 6.0


def test_replays_on_two_streams_do_not_overlap() -> None:
    x = torch.zeros(1, device=DEVICE)
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        for _ in range(50):
            x += 1
    streams = [torch.rustdev.Stream() for _ in range(3)]
    torch.rustdev.synchronize()
    for turn in range(30):
        with torch.rustdev.stream(streams[turn % 3]):
            graph.replay()
    torch.rustdev.synchronize()
    assert x.item() == 1500.0
    slow = torch.rustdev.Graph()
    with torch.rustdev.graph(slow):
        read = x.clone()
        torch.rustdev._sleep(5_000_000)
        torch.add(read, 1, out=x)
    for stream in streams:
        with torch.rustdev.stream(stream):
            slow.replay()
    torch.rustdev.synchronize()
    assert x.item() == 1503.0


def test_events_inside_a_capture_are_edges(tmp_path: Path) -> None:
    x = torch.ones(1000, device=DEVICE)
    # Two that follow one another in the pool are not the same.
    main, side = torch.rustdev.Stream(), torch.rustdev.Stream()
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph, stream=main):
        a = x * 2
        side.wait_stream(torch.rustdev.current_stream())
        with torch.rustdev.stream(side):
            assert torch.rustdev.is_current_stream_capturing()
            b = a + 1
        c = a.neg()
        torch.rustdev.current_stream().wait_stream(side)
        d = b * c
    assert not side.is_capturing()
    for value in (1.0, 3.0):
        x.fill_(value)
        graph.replay()
        assert d[0].item() == (2 * value + 1) * (-2 * value)
    graph.debug_dump(str(tmp_path / "graph.dot"))
    text = (tmp_path / "graph.dot").read_text()
    assert text.startswith("digraph")
    for edge in ("n0 -> n1", "n0 -> n2", "n1 -> n3", "n2 -> n3"):
        assert edge in text
    assert "n1 -> n2" not in text
    assert text.count("subgraph") == 2


def test_host_functions_and_sleeps_are_replayed() -> None:
    seen: list[float] = []
    x = torch.zeros(1, device=DEVICE)
    pinned = torch.zeros(1).pin_memory()
    graph = torch.rustdev.Graph()
    stream = torch.rustdev.Stream()
    with torch.rustdev.graph(graph, stream=stream):
        x += 1
        pinned.copy_(x, non_blocking=True)
        torch.rustdev._sleep(1_000_000)
        torch.rustdev.launch_host_func(lambda: seen.append(pinned.item()), stream)
        x += 1
    assert seen == []
    for _ in range(2):
        graph.replay()
    torch.rustdev.synchronize()
    assert seen == [1.0, 3.0]
    assert x.item() == 4.0


def test_pinned_memory_is_read_again_at_each_replay_and_kept() -> None:
    source = torch.full((1024,), 1.0).pin_memory()
    address = source.data_ptr()
    x = torch.zeros(1024, device=DEVICE)
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        x.copy_(source, non_blocking=True)
    for value in (2.0, 3.0):
        source.fill_(value)
        graph.replay()
        assert x[0].item() == value
    del source
    others = [torch.empty(1024).pin_memory() for _ in range(4)]
    assert address not in [other.data_ptr() for other in others]
    graph.reset()
    assert torch.empty(1024).pin_memory().data_ptr() == address


def test_memory_of_a_graph_is_nobody_elses() -> None:
    x = torch.ones(1 << 16, device=DEVICE)
    stream = torch.rustdev.Stream()
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph, stream=stream):
        y = (x + 1) * 2  # the sum's memory is free again at the end of the capture
    with torch.rustdev.stream(stream):
        others = [torch.full((1 << 16,), 9.0, device=DEVICE) for _ in range(8)]
    torch.rustdev.synchronize()
    graph.replay()
    torch.rustdev.synchronize()
    assert y[0].item() == 4.0
    assert all(bool((other == 9.0).all()) for other in others)


def test_statistics_return_when_a_graph_goes() -> None:
    x = torch.ones(1 << 20, device=DEVICE)
    torch.rustdev.synchronize()
    gc.collect()
    torch.rustdev.empty_cache()
    before = (torch.rustdev.memory_allocated(), torch.rustdev.memory_reserved())
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        y = (x + 1).exp()
    assert torch.rustdev.memory_reserved() > before[1]
    graph.replay()
    torch.rustdev.synchronize()
    del y
    assert torch.rustdev.memory_allocated() == before[0]
    torch.rustdev.empty_cache()
    assert torch.rustdev.memory_reserved() > before[1], "memory of a live graph was given back"
    graph.reset()
    assert (torch.rustdev.memory_allocated(), torch.rustdev.memory_reserved()) == before


def test_results_outlive_their_graph() -> None:
    graph, x, y = captured_addition()
    x.fill_(2)
    graph.replay()
    del graph
    with torch.rustdev.graph(torch.rustdev.Graph()):
        torch.zeros(1000, device=DEVICE)
    assert bool((y == 3).all())


def test_a_graph_that_goes_during_its_replay_ends_it_first() -> None:
    x = torch.zeros(1 << 16, device=DEVICE)
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        x += torch.ones_like(x) * 3
    torch.rustdev._sleep(20_000_000)
    graph.replay()
    del graph
    torch.rustdev.empty_cache()
    others = [torch.full_like(x, 7.0) for _ in range(4)]
    assert bool((x == 3).all())
    assert all(bool((other == 7).all()) for other in others)


def test_graphs_share_a_pool() -> None:
    x = torch.ones(1 << 20, device=DEVICE)
    graphs = [torch.rustdev.Graph() for _ in range(4)]
    pool = torch.rustdev.graph_pool_handle()
    torch.rustdev.empty_cache()
    reserved = []
    outputs = []
    for graph in graphs:
        with torch.rustdev.graph(graph, pool=pool):
            outputs.append(((x + 1) * 2).sum())
        reserved.append(torch.rustdev.memory_reserved())
    assert reserved[1:] == reserved[:1] * 3, "later captures do not use the memory of the first"
    assert {graph.pool() for graph in graphs} == {pool}
    for graph in graphs:
        graph.replay()
    assert [output.item() for output in outputs] == [4.0 * (1 << 20)] * 4
    graphs[0].reset()
    graphs[1].replay()
    assert outputs[1].item() == 4.0 * (1 << 20)


def test_snapshots_name_the_pool() -> None:
    graph, _, y = captured_addition()
    segments = torch.rustdev.memory_snapshot(graph.pool())
    assert sum(segment["address"] <= y.data_ptr() < segment["address"] + segment["total_size"] for segment in segments) == 1
    # Other tests' graphs keep their pools as long as Python keeps the graphs.
    pools = {segment["segment_pool_id"] for segment in torch.rustdev.memory_snapshot()}
    assert {(0, 0), graph.pool()} <= pools
    assert sum(len(torch.rustdev.memory_snapshot(pool)) for pool in pools) == len(torch.rustdev.memory_snapshot())
    with pytest.raises(RuntimeError, match="not the name of a memory pool"), torch.rustdev.stream(torch.rustdev.Stream()):
        torch.rustdev.Graph().capture_begin(pool=(7, 7))


def test_an_empty_graph_warns_and_replays_nothing() -> None:
    graph = torch.rustdev.Graph()
    with pytest.warns(UserWarning, match="The graph is empty"), torch.rustdev.graph(graph):
        pass
    graph.replay()


def test_other_devices_have_graphs_of_their_own() -> None:
    with torch.rustdev.device(1):
        x = torch.zeros(8, device="rustdev:1")
        graph = torch.rustdev.Graph()
        with torch.rustdev.graph(graph):
            x += 1
    graph.replay()
    assert torch.rustdev.current_device() == 0
    assert x.tolist() == [1.0] * 8


def test_a_capture_may_span_devices() -> None:
    x = torch.ones(100, device="rustdev:0")
    other = torch.rustdev.Stream(1)
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        a = x * 2
        other.wait_stream(torch.rustdev.current_stream())
        with torch.rustdev.stream(other):
            y = a.to("rustdev:1") + 1
        torch.rustdev.current_stream().wait_stream(other)
    for value in (1.0, 5.0):
        x.fill_(value)
        graph.replay()
        torch.rustdev.synchronize()
        assert (str(y.device), y[0].item()) == ("rustdev:1", 2 * value + 1)


def test_other_threads_and_their_streams_work_on() -> None:
    graph = torch.rustdev.Graph()
    x = torch.zeros(10, device=DEVICE)

    def work() -> float:
        with torch.rustdev.stream(torch.rustdev.Stream()):
            y = torch.ones(10, device=DEVICE)
            torch.rustdev.synchronize()
            return (y + 1).sum().item()

    with torch.rustdev.graph(graph, capture_error_mode="thread_local"):
        x += 1
        assert in_thread(work) == 20.0
        x += 1
    graph.replay()
    assert x[0].item() == 2.0


@pytest.mark.parametrize("priority", [0, -1])
def test_a_new_stream_is_no_stream_that_captures(priority: int) -> None:
    graph = torch.rustdev.Graph()
    captured = torch.rustdev.Stream(priority=priority)
    with torch.rustdev.graph(graph, stream=captured):
        torch.zeros(10, device=DEVICE)
        others = [torch.rustdev.Stream(priority=priority) for _ in range(65)]
    assert captured not in others
    assert len(set(others)) == 31
    assert captured in [torch.rustdev.Stream(priority=priority) for _ in range(32)]


def test_a_failure_in_a_replay_is_raised_once_with_its_name() -> None:
    table = torch.arange(4.0, device=DEVICE)
    index = torch.zeros(2, dtype=torch.long, device=DEVICE)
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        y = torch.gather(table, 0, index)
    index.fill_(77)
    graph.replay()
    with pytest.raises(torch.AcceleratorError, match="gather"):
        torch.rustdev.synchronize()
    index.fill_(3)
    graph.replay()
    assert y.tolist() == [3.0, 3.0]
