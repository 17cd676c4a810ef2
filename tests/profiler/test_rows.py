"""Device rows in traces: one for each task, on the line of its stream, linked to its operator."""

import os
import threading
from itertools import pairwise

import children
import pytest
import torch
from chrome_trace import DEVICE, Take
from torch.profiler import ProfilerActivity

LARGE = 600


def test_a_task_is_a_row_on_its_stream_with_an_arrow_from_its_operator(take: Take) -> None:
    x = torch.ones(LARGE, LARGE, device="rustdev")
    trace = take(lambda: x @ x)
    row = trace.row("mm")
    assert (row["pid"], row["tid"], row["args"]["device"], row["args"]["stream"]) == (0, 0, 0, 0)
    assert row["args"]["tier"] == "rust"
    assert row["dur"] > 0
    assert trace.operator(row) == "aten::mm"
    ((call, target),) = trace.arrows()
    assert target == row
    assert (call["name"], call["pid"], call["tid"]) == ("rd_launch", os.getpid(), threading.get_native_id())
    assert call["args"]["task"] == "mm"
    assert trace.operator(call) == "aten::mm"
    operator = trace.row("aten::mm", "cpu_op")
    assert operator["ts"] <= call["ts"] <= row["ts"]
    assert call["ts"] + call["dur"] <= operator["ts"] + operator["dur"]


def test_small_work_on_the_submitting_thread_is_a_row_too(take: Take) -> None:
    x = torch.ones(3, device="rustdev")
    torch.rustdev.synchronize()
    trace = take(lambda: x + 1)
    assert trace.names() == ["add"]
    ((call, row),) = trace.arrows()
    assert call["ts"] <= row["ts"]


def test_every_arrow_has_two_ends(take: Take) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).to("rustdev")
    x = torch.randn(128, 64, device="rustdev")
    trace = take(lambda: model(x).sum().backward())
    arrows = trace.arrows()
    assert len(arrows) == len(trace.rows()) == len(trace.rows("privateuse1_runtime")) > 8
    assert all(call["ts"] <= row["ts"] and call["args"]["External id"] == row["args"]["External id"] for call, row in arrows)
    assert {trace.operator(row) for row in trace.rows()} >= {"aten::addmm", "aten::threshold_backward", "aten::sum"}


def test_streams_have_lines_of_their_own(take: Take) -> None:
    side, urgent = torch.rustdev.Stream(), torch.rustdev.Stream(priority=-1)
    x = torch.ones(LARGE, LARGE, device="rustdev")
    torch.rustdev.synchronize()

    def work() -> None:
        x.relu()
        with torch.rustdev.stream(side):
            x.exp()
        with torch.rustdev.stream(urgent):
            x.sin()

    trace = take(work)
    assert {row["name"]: row["tid"] for row in trace.rows()} == {"relu": 0, "exp": side.stream_id, "sin": urgent.stream_id}
    lines = {event["tid"]: event["args"]["name"] for event in trace.events if event["name"] == "thread_name" and event["pid"] == 0}
    assert lines[0] == "stream 0 (default)"
    assert lines[side.stream_id] == f"stream {side.stream_id}"
    assert lines[urgent.stream_id] == f"stream {urgent.stream_id} (high priority)"


def test_tasks_of_a_stream_do_not_overlap(take: Take) -> None:
    x = torch.ones(LARGE, LARGE, device="rustdev")
    tensors = [torch.ones(200_000, device="rustdev") for _ in range(3)]

    def work() -> None:
        for _ in range(5):
            x.exp()
            torch._foreach_mul_(tensors, 1.5)
            torch._foreach_add_(tensors, 0.5)
            x[:2].relu()

    rows = take(work).rows()
    assert len(rows) == 20
    # Chrome's numbers are microseconds with three digits.
    assert all(one["ts"] + one["dur"] <= other["ts"] + 0.002 for one, other in pairwise(rows))


def test_devices_are_processes_of_their_own(take: Take) -> None:
    first, second = torch.ones(LARGE, device="rustdev:0"), torch.ones(LARGE, device="rustdev:1")
    trace = take(lambda: (first.exp(), second.sin()))
    assert {row["name"]: (row["pid"], row["args"]["device"]) for row in trace.rows()} == {"exp": (0, 0), "sin": (1, 1)}
    names = {event["pid"]: event["args"]["name"] for event in trace.events if event["name"] == "process_name"}
    assert (names[0], names[1]) == ("rustdev 0", "rustdev 1")


def test_the_device_alone_has_rows_without_operators(take: Take) -> None:
    x = torch.ones(LARGE, LARGE, device="rustdev")
    trace = take(lambda: x @ x, activities=[ProfilerActivity.PrivateUse1])
    assert trace.names("cpu_op") == []
    assert trace.names() == ["mm"]
    assert "External id" not in trace.row("mm")["args"]
    ((call, row),) = trace.arrows()
    assert (call["args"]["task"], row["name"]) == ("mm", "mm")


def test_the_cpu_alone_has_no_rows_of_the_device(take: Take) -> None:
    x = torch.ones(LARGE, LARGE, device="rustdev")
    trace = take(lambda: x @ x, activities=[ProfilerActivity.CPU])
    assert "aten::mm" in trace.names("cpu_op")
    assert trace.rows() == trace.rows("privateuse1_runtime") == []


def test_activities_can_be_chosen_one_by_one(take: Take) -> None:
    x = torch.ones(30, device="rustdev")
    chosen = [ProfilerActivity.CPU, {ProfilerActivity.PrivateUse1: ["GPU_MEMCPY"]}]
    trace = take(lambda: x.exp().cpu(), activities=chosen)
    assert trace.names() == ["Memcpy DtoH (Device -> Pageable)"]


@pytest.mark.slow
def test_the_device_has_rows_after_a_first_trace_of_the_cpu_alone() -> None:
    program = """
        import torch
        from torch.profiler import ProfilerActivity, profile
        x = torch.ones(3, device="rustdev")
        with profile(activities=[ProfilerActivity.CPU]):
            x.exp()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as trace:
            x.sin()
        print([event.name for event in trace.events() if event.device_type.value == 20])
    """
    result = children.run(program)
    assert result.stdout.strip() == "['sin']", result.stderr


def test_key_averages_have_the_device_s_time(take: Take) -> None:
    x = torch.ones(LARGE, LARGE, device="rustdev")
    trace = take(lambda: [x @ x for _ in range(3)])
    rows = trace.rows()
    averages = {(row.key, row.device_type.value == DEVICE): row for row in trace.profiler.key_averages()}
    operator, kernel = averages["aten::mm", False], averages["mm", True]
    assert (operator.count, kernel.count) == (3, 3)
    expected = sum(row["dur"] for row in rows)
    assert abs(operator.self_device_time_total - expected) < 0.1
    assert abs(kernel.self_device_time_total - expected) < 0.1
    assert abs(averages["aten::matmul", False].device_time_total - expected) < 0.1
    assert "Self RUSTDEV" in trace.profiler.key_averages().table()


def test_work_of_autograd_s_threads_is_linked(take: Take) -> None:
    x = torch.ones(LARGE, LARGE, device="rustdev", requires_grad=True)
    y = x.exp().sum()

    def work() -> None:
        with torch.autograd.set_multithreading_enabled(True):
            y.backward()

    trace = take(work)
    row = next(row for row in trace.rows() if row["name"] == "mul")
    assert trace.operator(row) == "aten::mul"
    call = next(call for call, target in trace.arrows() if target == row)
    assert call["tid"] != threading.get_native_id()


def test_memory_is_counted(take: Take) -> None:
    trace = take(lambda: torch.empty(1000, device="rustdev").exp(), profile_memory=True)
    averages = {row.key: row for row in trace.profiler.key_averages()}
    assert averages["aten::empty"].self_device_memory_usage == 4096
    assert averages["aten::exp"].self_device_memory_usage == 4096


def test_tasks_still_queued_at_the_end_are_waited_for(take: Take) -> None:
    side = torch.rustdev.Stream(1)

    def work() -> None:
        with torch.rustdev.stream(side):
            torch.rustdev._sleep(30_000_000)
            torch.ones(3, device="rustdev:1").exp()

    trace = take(work)
    assert trace.row("sleep")["dur"] >= 30_000
    assert trace.row("exp")["dur"] > 0
    assert all("outcome" not in row["args"] for row in trace.rows())
