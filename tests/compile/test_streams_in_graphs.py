"""Streams and events used within compiled code: values and order."""

import torch

PAUSE = 100_000_000  # nanoseconds


def test_a_block_of_a_stream() -> None:
    side = torch.rustdev.Stream()

    @torch.compile
    def work(x: torch.Tensor) -> torch.Tensor:
        y = x.sin() + 1
        current = torch.rustdev.current_stream()
        side.wait_stream(current)
        with torch.rustdev.stream(side):
            z = y * 2
        current.wait_stream(side)
        return z.cos()

    x = torch.randn(1000, device="rustdev")
    expected = ((x.cpu().sin() + 1) * 2).cos()
    for _ in range(5):
        torch.rustdev._sleep(PAUSE // 10)
        torch.testing.assert_close(work(x).cpu(), expected)


def test_a_stream_that_is_entered() -> None:
    side = torch.rustdev.Stream()

    def work(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with side:
            y = x * 2 + 1
        return y, x * 3 + 1

    compiled = torch.compile(work)
    x = torch.ones(1000, device="rustdev")
    compiled(x)
    torch.rustdev.synchronize()
    with side:
        torch.rustdev._sleep(PAUSE)
    y, z = compiled(x)
    torch.rustdev.current_stream().synchronize()
    assert z.tolist() == [4.0] * 1000
    assert not side.query()
    side.synchronize()
    assert y.tolist() == [3.0] * 1000


def test_an_event_is_recorded_behind_the_kernels_before_it() -> None:
    event = torch.rustdev.Event()

    def work(x: torch.Tensor) -> torch.Tensor:
        y = x * 2 + 1
        event.record()
        return y

    compiled = torch.compile(work)
    x = torch.ones(1_000_000, device="rustdev")
    compiled(x)
    torch.rustdev.synchronize()
    side = torch.rustdev.Stream()
    for _ in range(10):
        torch.rustdev._sleep(PAUSE // 20)
        y = compiled(x)
        event.wait(side)
        with torch.rustdev.stream(side):
            total = y.sum()
        side.synchronize()
        with torch.rustdev.stream(side):
            assert total.item() == 3_000_000
