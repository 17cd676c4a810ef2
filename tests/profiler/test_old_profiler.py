"""PyTorch's old profiler, without Kineto: events around each operator."""

import pytest
import torch


def _events(device: str, function: object) -> list[object]:
    with torch.autograd.profiler.profile(use_device="rustdev", use_kineto=False) as profiler:
        function()
    return list(profiler.function_events)


def test_operators_have_the_device_s_time_and_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.ones(600, 600, device="rustdev")
    torch.rustdev.synchronize()

    def work() -> None:
        torch.rustdev._sleep(20_000_000)
        x @ x

    events = {event.name: event for event in _events("rustdev", work)}
    assert events["aten::mm"].device_time_total > 20
    captured = capfd.readouterr()
    assert "arning" not in captured.out + captured.err


def test_operators_of_another_device_are_measured_there() -> None:
    with torch.rustdev.device(1):
        x = torch.ones(400, 400, device="rustdev")
        events = {event.name: event for event in _events("rustdev", lambda: x @ x)}
    assert events["aten::mm"].device_time_total > 0


def test_the_current_device_stays() -> None:
    torch.rustdev.set_device(1)
    _events("rustdev", lambda: torch.ones(3, device="rustdev") + 1)
    assert torch.rustdev.current_device() == 1
