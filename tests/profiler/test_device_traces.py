"""torch.rustdev.profiler: traces without PyTorch's profiler, their limit, and processes."""

import subprocess
import threading

import children
import pytest
import torch
from chrome_trace import EVERYTHING
from in_threads import in_threads
from torch.profiler import profile
from torch.rustdev import profiler


def test_tasks_are_returned_in_the_order_of_submission() -> None:
    x = torch.ones(500, 500, device="rustdev:1")
    with profiler.profile() as tasks:
        assert tasks == []
        y = x @ x
        y.cpu()
    matmul, copy = tasks
    assert (matmul.name, matmul.tier, matmul.device, matmul.stream, matmul.bytes) == ("mm", "rust", 1, 0, 0)
    assert (copy.name, copy.bytes) == ("Memcpy DtoH (Device -> Pageable)", 1_000_000)
    assert {task.thread for task in tasks} == {threading.get_native_id()}
    assert {task.outcome for task in tasks} == {"done"}
    for task in tasks:
        assert task.submission[0] <= task.submission[1]
        assert task.submission[0] <= task.run[0] < task.run[1]
        assert task.fused == 1
    assert matmul.run[1] <= copy.run[0]


def test_nothing_is_recorded_when_off() -> None:
    x = torch.ones(100, device="rustdev")
    profiler.start()
    tasks = profiler.stop()
    assert tasks == []
    x.exp()
    with profiler.profile() as tasks:
        x.sin()
    x.cos()
    assert [task.name for task in tasks] == ["sin"]


def test_a_task_of_before_is_not_recorded_when_it_runs_later() -> None:
    torch.rustdev._sleep(20_000_000)
    with profiler.profile() as tasks:
        torch.ones(3, device="rustdev").exp()
    assert [task.name for task in tasks] == ["Memset (Device)", "exp"]


def test_one_trace_is_taken_at_a_time() -> None:
    with profile(activities=EVERYTHING):
        with pytest.raises(RuntimeError, match="is being taken already"):
            profiler.start()
        with pytest.raises(RuntimeError, match="was not called"):
            profiler.stop()
    profiler.start()
    with pytest.raises(RuntimeError, match="is being taken already"):
        profiler.start()
    torch.ones(3, device="rustdev")
    assert len(profiler.stop()) == 1
    with pytest.raises(RuntimeError, match="was not called"):
        profiler.stop()


def test_pytorchs_profiler_beside_it_warns_and_has_no_rows(capfd: pytest.CaptureFixture[str]) -> None:
    with profiler.profile() as tasks:
        with profile(activities=EVERYTHING) as other:
            torch.ones(3, device="rustdev")
        assert "is being taken already" in capfd.readouterr().err
        assert [event.name for event in other.events() if event.device_type.value == 20] == []
    assert len(tasks) == 1


def test_what_finds_no_room_is_counted(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.ones(3, device="rustdev")
    before = profiler.get_limit()
    profiler.set_limit(1000)
    try:
        assert profiler.get_limit() == 1024
        profiler.start()
        for _ in range(1030):
            x.exp()
        with pytest.warns(UserWarning, match="the first 1024 tasks were recorded, 6 more were not"):
            assert len(profiler.stop()) == 1024
        with profile(activities=EVERYTHING) as trace:
            for _ in range(1030):
                x.exp()
        assert "6 more found no room" in capfd.readouterr().err
        assert sum(event.device_type.value == 20 for event in trace.events()) == 1024
    finally:
        profiler.set_limit(before)
    for wrong in (0, -1, 2**40):
        with pytest.raises(ValueError, match="room for 1 to"):
            profiler.set_limit(wrong)


def test_many_threads_record_at_once() -> None:
    def work(index: int) -> None:
        x = torch.ones(200, device=f"rustdev:{index % 2}")
        with torch.rustdev.stream(torch.rustdev.Stream(index % 2)):
            for _ in range(300):
                x.exp()

    with profiler.profile() as tasks:
        in_threads(work, range(6))
    exps = [task for task in tasks if task.name == "exp"]
    assert len(exps) == 1800
    assert all(task.outcome == "done" and 0 < task.run[0] <= task.run[1] for task in exps)
    assert len({(task.device, task.stream) for task in exps}) == 6
    assert len({task.thread for task in exps}) == 6


def _run(program: str) -> subprocess.CompletedProcess[str]:
    return children.run(program, RUSTDEV_DEVICE_COUNT="2")


def test_a_forked_child_is_refused_and_the_parent_goes_on() -> None:
    result = _run("""
        import os, torch
        from torch.rustdev import profiler
        x = torch.ones(3, device="rustdev")
        profiler.start()
        x.exp()
        if os.fork() == 0:
            for call in (profiler.start, profiler.stop, lambda: x + 1):
                try:
                    call()
                except RuntimeError as error:
                    assert "forked subprocess" in str(error)
                else:
                    os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
        x.sin()
        print([task.name for task in profiler.stop()])
    """)
    assert (result.stdout.strip(), result.returncode) == ("['exp', 'sin']", 0), result.stderr


def test_a_process_may_end_in_the_middle_of_a_trace() -> None:
    result = _run("""
        import torch
        torch.rustdev.profiler.start()
        x = torch.ones(800, 800, device="rustdev")
        for _ in range(20):
            x = x @ x
        torch.rustdev._sleep(10_000_000_000)
        x.exp()
        print("end")
    """)
    assert (result.stdout.strip(), result.returncode) == ("end", 0), result.stderr
