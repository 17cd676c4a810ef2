"""Graph replays in traces: the nodes are named rows of the stream, with one call for all of them."""

from itertools import pairwise

import pytest
import torch
from chrome_trace import Take
from torch.rustdev import profiler

SIZE = 300


def captured() -> tuple[torch.rustdev.Graph, torch.Tensor]:
    """A graph of several kernels, and what it reads."""
    x = torch.ones(SIZE, SIZE, device="rustdev")
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        torch.zeros(SIZE, device="rustdev").copy_((x @ x).relu_()[0])
    return graph, x


NODES = ["Memset (Device)", "mm", "relu", "Memcpy DtoD (Device -> Device)"]


def test_a_replay_shows_its_nodes_on_the_line_of_its_stream(take: Take) -> None:
    graph, _x = captured()
    side = torch.rustdev.Stream()

    def replay() -> None:
        with torch.rustdev.stream(side):
            graph.replay()

    trace = take(replay)
    assert sorted(trace.names()) == sorted(NODES)
    rows = trace.rows()
    assert {row["tid"] for row in rows} == {side.stream_id}
    assert {row["args"]["tier"] for row in rows} == {"rust"}
    assert all(one["ts"] + one["dur"] <= other["ts"] + 0.002 for one, other in pairwise(rows))


def test_arrows_lead_from_one_call_to_all_nodes(take: Take) -> None:
    graph, _x = captured()
    trace = take(graph.replay)
    (call,) = trace.rows("privateuse1_runtime")
    assert (call["name"], call["args"]["task"]) == ("rd_graph_replay", "graph")
    flows = [event for event in trace.events if event.get("cat") == "ac2g"]
    assert [event["ph"] for event in flows].count("s") == 1
    assert len(flows) == 1 + len(NODES)
    assert len({event["id"] for event in flows}) == 1


def test_ranges_around_a_replay_hold_its_nodes(take: Take) -> None:
    graph, _x = captured()

    def step() -> None:
        with torch.profiler.record_function("step"):
            graph.replay()

    trace = take(step)
    (whole,) = trace.rows("gpu_user_annotation")
    assert whole["name"] == "step"
    assert whole["ts"] <= min(row["ts"] for row in trace.rows()) + 0.002
    assert {trace.operator(row) for row in trace.rows()} == {"step"}


def test_fused_nodes_share_their_time() -> None:
    tensors = [torch.ones(400_000, device="rustdev") for _ in range(3)]
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        torch._foreach_mul_(tensors, 1.5)
        torch._foreach_add_(tensors, 0.5)
    with profiler.profile() as tasks:
        graph.replay()
    assert [task.fused for task in tasks] == [2, 2]
    assert "mul" in tasks[0].name
    assert "add" in tasks[1].name
    assert all(one.run[1] <= other.run[0] for one, other in pairwise(tasks))
    assert all(task.submission == tasks[0].submission and task.run[0] < task.run[1] for task in tasks)


def test_host_functions_and_sleeps_between_kernels_are_rows_too() -> None:
    x = torch.ones(4, device="rustdev")
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        x.add_(1)
        torch.rustdev.launch_host_func(lambda: None)
        torch.rustdev._sleep(1_000_000)
        x.neg_()
    with profiler.profile() as tasks:
        graph.replay()
    assert [(task.name, task.tier) for task in tasks] == [
        ("add", "rust"),
        ("host_func", "host"),
        ("sleep", "sleep"),
        ("neg", "rust"),
    ]


def test_a_node_that_fails_is_told_from_those_behind_it() -> None:
    x = torch.ones(4, device="rustdev")
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        x.exp_()
        x.sin_()
        x.cos_()
    with profiler.profile() as tasks, torch.rustdev.inject_faults("kernel:sin:1"):
        graph.replay()
        with pytest.raises(torch.AcceleratorError, match="sin"):
            torch.rustdev.synchronize()
    assert [(task.name, task.outcome) for task in tasks] == [("exp", "done"), ("sin", "failed"), ("cos", "not run")]


def test_nodes_that_find_no_room_are_counted() -> None:
    x = torch.ones(4, device="rustdev")
    graph = torch.rustdev.Graph()
    with torch.rustdev.graph(graph):
        for _ in range(600):
            x.exp_()
    before = profiler.get_limit()
    profiler.set_limit(1024)
    try:
        profiler.start()
        graph.replay()
        graph.replay()
        # Each replay has an entry for its call.
        with pytest.warns(UserWarning, match="the first 1022 tasks were recorded, 178 more were not"):
            assert len(profiler.stop()) == 1022
    finally:
        profiler.set_limit(before)
