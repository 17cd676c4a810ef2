"""User ranges: record_function and torch.rustdev.nvtx, on the host and on the streams."""

import pytest
import torch
from chrome_trace import Take
from in_threads import in_thread
from torch.profiler import record_function
from torch.rustdev import nvtx


def test_a_range_is_on_the_host_and_on_the_streams_of_its_tasks(take: Take) -> None:
    x = torch.ones(300, 300, device="rustdev")
    side = torch.rustdev.Stream()

    def work() -> None:
        with record_function("outer"):
            with record_function("inner"):
                x.exp()
            with torch.rustdev.stream(side):
                x.sin()
        x.cos()

    trace = take(work)
    assert sorted(trace.names("user_annotation")) == ["inner", "outer"]
    on_streams = {(row["name"], row["tid"]): row for row in trace.rows("gpu_user_annotation")}
    assert set(on_streams) == {("inner", 0), ("outer", 0), ("outer", side.stream_id)}
    exp = trace.row("exp")
    for name in ("inner", "outer"):
        row = on_streams[name, 0]
        # Chrome's numbers are microseconds with three digits.
        assert abs(row["ts"] - exp["ts"]) + abs(row["dur"] - exp["dur"]) < 0.01
    averages = {(row.key, row.is_user_annotation, row.device_type.value): row for row in trace.profiler.key_averages()}
    assert averages["outer", True, 0].self_device_time_total == 0


def test_pushed_ranges_nest_and_tell_their_depth(take: Take) -> None:
    x = torch.ones(3, device="rustdev")
    depths = []

    def work() -> None:
        depths.append(nvtx.range_push("one"))
        depths.append(nvtx.range_push("two"))
        x.exp()
        depths.append(nvtx.range_pop())
        depths.append(nvtx.range_pop())
        depths.append(nvtx.range_pop())

    trace = take(work)
    assert depths == [0, 1, 1, 0, -1]
    one, two = trace.row("one", "user_annotation"), trace.row("two", "user_annotation")
    assert one["ts"] <= two["ts"]
    assert two["ts"] + two["dur"] <= one["ts"] + one["dur"]
    assert sorted(trace.names("gpu_user_annotation")) == ["one", "two"]


def test_depths_belong_to_the_thread() -> None:
    nvtx.range_push("here")
    assert in_thread(lambda: [nvtx.range_pop(), nvtx.range_push("there"), nvtx.range_pop()]) == [-1, 0, 0]
    assert nvtx.range_pop() == 0


def test_a_range_formats_its_message_and_decorates(take: Take) -> None:
    @nvtx.range("decorated")
    def function() -> None:
        pass

    def work() -> None:
        with nvtx.range("step {} of {total}", 3, total=7):
            pass
        function()
        function()
        nvtx.mark("here")

    assert take(work).names("user_annotation") == ["step 3 of 7", "decorated", "decorated", "here"]


def test_started_ranges_end_in_any_order_and_on_any_thread(take: Take) -> None:
    x = torch.ones(3, device="rustdev")

    def work() -> None:
        first, second = nvtx.range_start("first"), nvtx.range_start("second")
        nvtx.range_end(first)
        in_thread(lambda: nvtx.range_end(second))
        with pytest.raises(ValueError, match="no range is open"):
            nvtx.range_end(first)
        x.exp()

    trace = take(work)
    assert set(trace.names("user_annotation")) >= {"first"}
    assert trace.operator(trace.row("exp")) == "aten::exp"
    with pytest.raises(TypeError, match="expected a text"):
        nvtx.range_push(3)
    with pytest.raises(KeyError), nvtx.range("broken"):
        raise KeyError
    assert nvtx.range_pop() == -1
