"""Failures in traces: a failed task has a row, tasks skipped after it have none, and the profiler continues."""

import pytest
import torch
from chrome_trace import DEVICE, EVERYTHING, Take
from torch.profiler import profile


def _fail() -> None:
    raise KeyError


def test_a_failing_task_closes_its_row_and_what_is_skipped_has_none(take: Take) -> None:
    x = torch.ones(3, device="rustdev")
    side = torch.rustdev.Stream()
    side.wait_stream(torch.rustdev.current_stream())

    def work() -> None:
        torch.rustdev.launch_host_func(_fail, side)
        with torch.rustdev.stream(side):
            x.exp()
        with pytest.raises(torch.AcceleratorError, match="host_func"):
            side.synchronize()
        with torch.rustdev.stream(side):
            x.sin()

    trace = take(work)
    assert [(row["name"], row["args"].get("outcome")) for row in trace.rows()] == [("host_func", "failed"), ("sin", None)]
    calls = {call["args"]["task"]: call["args"].get("outcome") for call in trace.rows("privateuse1_runtime")}
    assert calls == {"host_func": None, "exp": "not run", "sin": None}
    assert trace.operator(next(call for call in trace.rows("privateuse1_runtime") if call["args"]["task"] == "exp")) == "aten::exp"


def test_a_failing_kernel_closes_its_row(take: Take) -> None:
    x, index = torch.ones(3, device="rustdev"), torch.tensor([5], device="rustdev")

    def work() -> None:
        x.index_select(0, index)
        with pytest.raises(torch.AcceleratorError):
            torch.rustdev.synchronize()

    trace = take(work)
    assert [row["args"].get("outcome") for row in trace.rows() if row["name"].startswith("index_select")] == ["failed"]


def test_a_failure_at_the_end_is_raised_and_the_next_trace_is_right() -> None:
    with pytest.raises(torch.AcceleratorError, match="host_func"), profile(activities=EVERYTHING):
        torch.rustdev.launch_host_func(_fail)
    x = torch.ones(3, device="rustdev")
    # The profiler that was left by the failure is still on; PyTorch ends it here.
    torch.autograd._disable_profiler()
    with profile(activities=EVERYTHING) as profiler:
        x.exp()
    assert [event.name for event in profiler.events() if event.device_type.value == DEVICE] == ["exp"]


def test_a_failing_fallback_closes_its_row(take: Take) -> None:
    mode = torch.rustdev.fallback_mode()
    torch.rustdev.set_fallback_mode("allow")
    singular = torch.zeros(3, 3, device="rustdev")

    def work() -> None:
        with pytest.raises(RuntimeError):
            torch.linalg.cholesky(singular)
        with pytest.raises(RuntimeError):
            torch.cholesky_inverse(singular)

    trace = take(work)
    torch.rustdev.set_fallback_mode(mode)
    assert all(row["dur"] >= 0 for row in trace.rows())
    assert len(trace.arrows()) == len(trace.rows())
