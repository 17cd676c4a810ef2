"""Schedules: several consecutive traces, each with the tasks of its own steps."""

from pathlib import Path

import torch
from chrome_trace import DEVICE, EVERYTHING, Take, Trace, exported
from torch.profiler import profile, schedule


def test_each_cycle_has_the_tasks_of_its_active_steps(tmp_path: Path) -> None:
    x = torch.ones(1000, device="rustdev")
    steps = [torch.sin, torch.cos, torch.exp, torch.log, torch.sqrt, torch.tanh, torch.abs, torch.neg]
    traces: list[Trace] = []
    with profile(
        activities=EVERYTHING,
        acc_events=True,
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=lambda profiler: traces.append(exported(profiler, tmp_path / f"{len(traces)}.json")),
    ) as profiler:
        for step in steps:
            step(x)
            profiler.step()
    assert [trace.names() for trace in traces] == [["exp", "log"], ["abs", "neg"]]
    for trace in traces:
        assert [trace.operator(row) for row in trace.rows()] == [f"aten::{name}" for name in trace.names()]
        assert len(trace.arrows()) == 2
        steps_on_stream = [row["name"] for row in trace.rows("gpu_user_annotation")]
        assert [name.split("#")[0] for name in steps_on_stream] == ["ProfilerStep", "ProfilerStep"]


def test_a_trace_that_ends_inside_an_operator_leaves_no_link_behind(take: Take) -> None:
    x = torch.ones(1000, device="rustdev")
    outer = profile(activities=EVERYTHING)

    with torch.profiler.record_function("open at the start"):
        outer.start()
        with torch.profiler.record_function("open at the end"):
            x.exp()
            outer.stop()
    (row,) = [event for event in outer.events() if event.device_type.value == DEVICE and event.name == "exp"]
    assert row.linked_correlation_id > 0
    trace = take(lambda: torch.rustdev._sleep(1000))
    assert "External id" not in trace.row("sleep")["args"]
