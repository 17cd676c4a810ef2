"""The race detector finds each planted race although the results are correct, and reports what is needed to fix it."""

from pathlib import Path
from subprocess import CompletedProcess

import children
import planted_races
import pytest
import torch
from in_threads import in_threads
from planted_races import PLANTED, Planted

Stream = torch.rustdev.Stream
SynchronizationError = torch.rustdev.SynchronizationError


every_program = pytest.mark.parametrize("planted", PLANTED, ids=[planted.name for planted in PLANTED])


@every_program
def test_a_planted_fault_is_found_though_the_result_is_right(planted: Planted) -> None:
    with torch.rustdev.sanitizer():
        computed, expected = planted.program()
        reports = torch.rustdev.sanitizer_reports()
    torch.rustdev.synchronize()
    torch.rustdev.synchronize(1)
    assert torch.equal(computed.cpu(), expected)
    assert any(planted.matches(report) for report in reports), [report.text for report in reports] or "nothing was found"


@every_program
def test_it_raises_where_the_fault_is_completed(planted: Planted) -> None:
    with pytest.raises(SynchronizationError, match=rf"\[{planted.kind}\]") as caught, torch.rustdev.sanitizer(mode="error"):
        planted.program()
    report = torch.rustdev.sanitizer_reports()[0]
    assert isinstance(caught.value, RuntimeError)
    assert str(caught.value) == report.text
    assert planted.matches(report), report.text
    lines = [line for file, line, _ in report.second.frames if file == planted_races.__file__]
    assert set(lines) & planted.lines, report.text


def produce() -> torch.Tensor:
    """Return a tensor that a side stream makes."""
    side = Stream()
    side.wait_stream(torch.rustdev.current_stream())
    with torch.rustdev.stream(side):
        return torch.full((8, 8), 2.0, device="rustdev")


def test_a_report_names_both_calls_the_memory_and_the_remedy(capfd: pytest.CaptureFixture[str]) -> None:
    with torch.rustdev.sanitizer():
        tensor = produce()
        torch.rustdev.set_label(tensor, "activations")
        tensor.sum()
    (report,) = torch.rustdev.sanitizer_reports()
    assert report.kind == "unordered"
    assert report.first is not None
    assert (report.first.operator, report.first.writes, report.second.operator, report.second.writes) == (
        "fill_",
        True,
        "sum",
        False,
    )
    assert report.first.stream is not None
    assert report.first.stream[1] != 0
    assert report.second.stream == (0, 0)
    assert (report.begin, report.end) == (tensor.data_ptr(), tensor.data_ptr() + 256)
    assert report.label == "activations"
    assert report.shape is not None
    assert report.shape.startswith("float32")
    assert [function for _, _, function in report.first.frames[:2]] == [
        "produce",
        "test_a_report_names_both_calls_the_memory_and_the_remedy",
    ]
    assert report.first.frames[0][0] == __file__
    assert "wait_stream" in report.remedy
    assert str(report) == report.text
    error = capfd.readouterr().err
    assert report.text in error
    assert f'File "{__file__}", line {report.first.frames[0][1]}, in produce' in error


def test_one_pair_of_lines_is_told_once(capfd: pytest.CaptureFixture[str]) -> None:
    with torch.rustdev.sanitizer():
        for _ in range(5):
            produce().sum()
    assert capfd.readouterr().err.count("[unordered]") == 1
    assert [report.kind for report in torch.rustdev.sanitizer_reports()].count("unordered") == 1
    torch.rustdev.clear_sanitizer_reports()
    with torch.rustdev.sanitizer():
        produce().sum()
    assert capfd.readouterr().err.count("[unordered]") == 1


def test_what_raises_does_not_run() -> None:
    side, x = Stream(), torch.zeros(4, device="rustdev")
    torch.rustdev.synchronize()
    with torch.rustdev.sanitizer(mode="error"):
        x.add_(1)
        with torch.rustdev.stream(side), pytest.raises(SynchronizationError):
            x.add_(1)
        side.wait_stream(torch.rustdev.current_stream())
        with torch.rustdev.stream(side):
            x.add_(1)
        side.synchronize()
    assert x.tolist() == [2.0] * 4


def test_an_error_in_backward_reaches_the_caller() -> None:
    weight, x = torch.ones(4, device="rustdev", requires_grad=True), torch.ones(4, device="rustdev")
    torch.rustdev.synchronize()
    with torch.rustdev.sanitizer(mode="error"):
        loss = (weight * x).sum()
        side = Stream()
        side.wait_stream(torch.rustdev.current_stream())
        with torch.rustdev.stream(side):
            x.data.fill_(2)
        with pytest.raises(SynchronizationError, match="fill_ writes"):
            loss.backward()
        torch.rustdev.synchronize()
    assert weight.grad is None


def test_it_can_be_switched_and_nested() -> None:
    assert torch.rustdev.sanitizer_mode() is None
    torch.rustdev.enable_sanitizer()
    assert torch.rustdev.sanitizer_mode() == "warn"
    with torch.rustdev.sanitizer(mode="error"):
        assert torch.rustdev.sanitizer_mode() == "error"
    assert torch.rustdev.sanitizer_mode() == "warn"
    torch.rustdev.disable_sanitizer()
    assert torch.rustdev.sanitizer_mode() is None
    produce().sum()
    torch.rustdev.synchronize()
    assert torch.rustdev.sanitizer_reports() == []


def test_a_wrong_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="'warn' or 'error', not"):
        torch.rustdev.enable_sanitizer("loud")
    with pytest.raises(ValueError, match="'warn' or 'error'"), torch.rustdev.sanitizer(mode="quiet"):
        pass
    assert torch.rustdev.sanitizer_mode() is None


def test_it_begins_anew_when_it_is_enabled_again() -> None:
    with torch.rustdev.sanitizer():
        tensor = produce()
    with torch.rustdev.sanitizer(mode="error"):
        tensor.sum()
        torch.rustdev.synchronize()


def test_many_threads_may_submit_and_one_race_is_found() -> None:
    shared = torch.zeros(64, device="rustdev")
    torch.rustdev.synchronize()

    def work(_: int) -> None:
        side = Stream()
        with torch.rustdev.stream(side):
            mine = torch.ones(64, device="rustdev")
            for _ in range(50):
                mine.add_(1)
            mine.add_(shared)
        side.synchronize()

    with torch.rustdev.sanitizer():
        in_threads(work, range(4))
        assert torch.rustdev.sanitizer_reports() == []
        with torch.rustdev.stream(Stream()):
            shared.fill_(1)
        shared.sum()
    assert [report.kind for report in torch.rustdev.sanitizer_reports()] == ["unordered"]


def script(text: str, tmp_path: Path, **environment: str) -> CompletedProcess[str]:
    """Run a program in a process of its own."""
    file = tmp_path / "program.py"
    file.write_text(text)
    return children.python(file, **environment)


RACE = """
import torch
side = torch.rustdev.Stream()
x = torch.ones(4, device="rustdev")
with torch.rustdev.stream(side):
    y = x + 1
torch.rustdev.synchronize()
print(y.tolist())
"""


@pytest.mark.parametrize(
    ("variables", "code", "said"),
    [
        ({"RUSTDEV_SANITIZE": "race"}, 0, 'program.py", line 6, in <module>'),
        ({"RUSTDEV_SANITIZE": "race:error"}, 1, "rustdev.sanitizer.SynchronizationError: rustdev race detector"),
        ({"RUSTDEV_SANITIZE": "race", "RUSTDEV_LAUNCH_BLOCKING": "1"}, 0, "[unordered]"),
    ],
    ids=["warn", "error", "launches that block"],
)
def test_the_environment_switches_it_on(variables: dict[str, str], code: int, said: str, tmp_path: Path) -> None:
    done = script(RACE, tmp_path, **variables)
    assert (done.returncode, done.stdout) == (code, "" if code else "[2.0, 2.0, 2.0, 2.0]\n"), done.stderr
    assert "[unordered]" in done.stderr
    assert said in done.stderr


COLLECTIVE = """
import os
import torch, torch.distributed as dist
os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
dist.init_process_group("rdccl", init_method=f"file://{os.path.abspath('rendezvous')}", rank=0, world_size=1)
tensor = torch.ones(4, device="rustdev")
work = dist.all_reduce(tensor, async_op=True)
if WAITS:
    work.wait()
result = tensor + 1
work.wait()
print(result.tolist())
dist.destroy_process_group()
"""


@pytest.mark.parametrize("waits", [False, True])
def test_an_operation_of_processes_that_is_not_waited_for(waits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = script(COLLECTIVE.replace("WAITS", str(waits)), tmp_path, RUSTDEV_SANITIZE="race")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[2.0, 2.0, 2.0, 2.0]\n"
    found = "all_reduce writes, on the operations of torch.distributed" in done.stderr and "call wait() on the work" in done.stderr
    assert found is not waits, done.stderr
