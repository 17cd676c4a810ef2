"""Compiled code on streams: calls return at once, and kernels keep the order of the stream that they were called on."""

import time

import pytest
import torch

pytestmark = pytest.mark.clock

PAUSE = 300_000_000  # nanoseconds


def seconds(call: object) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def test_a_call_returns_before_its_kernels_run() -> None:
    compiled = torch.compile(lambda x, w: (x.sin() @ w).relu() + 1, fullgraph=True)
    x, w = torch.randn(8, 8, device="rustdev"), torch.randn(8, 8, device="rustdev")
    expected = (x.cpu().sin() @ w.cpu()).relu() + 1
    compiled(x, w)
    torch.rustdev.synchronize()
    torch.rustdev._sleep(PAUSE)
    results = []
    assert seconds(lambda: results.append(compiled(x, w))) < PAUSE / 2e9
    assert not torch.rustdev.current_stream().query()
    torch.testing.assert_close(results[0].cpu(), expected)


def test_backward_returns_before_its_kernels_run() -> None:
    x = torch.randn(8, 8, device="rustdev", requires_grad=True)
    loss = torch.compile(lambda x: x.tanh().square().sum(), fullgraph=True)
    loss(x).backward()
    x.grad = None
    output = loss(x)
    torch.rustdev.synchronize()
    torch.rustdev._sleep(PAUSE)
    assert seconds(output.backward) < PAUSE / 2e9
    assert not torch.rustdev.current_stream().query()
    torch.testing.assert_close(x.grad.cpu(), 2 * x.detach().cpu().tanh() * (1 - x.detach().cpu().tanh() ** 2))


def test_kernels_go_to_the_current_stream() -> None:
    compiled = torch.compile(lambda x: x * 2 + 1, fullgraph=True)
    x = torch.zeros(100, device="rustdev")
    compiled(x)
    first, second = torch.rustdev.Stream(), torch.rustdev.Stream()
    torch.rustdev.synchronize()
    with torch.rustdev.stream(first):
        torch.rustdev._sleep(PAUSE)
        compiled(x)
    with torch.rustdev.stream(second):
        result = compiled(x)
    second.synchronize()
    assert not first.query()
    with torch.rustdev.stream(second):
        assert result.tolist() == [1.0] * 100


def test_a_number_of_the_cpu_is_read_at_the_call() -> None:
    compiled = torch.compile(lambda x, factor: x * factor + 1, fullgraph=True)
    x, factor = torch.ones(64, device="rustdev"), torch.tensor(2.0)
    compiled(x, factor)
    torch.rustdev.synchronize()
    torch.rustdev._sleep(PAUSE // 3)
    result = compiled(x, factor)
    factor.fill_(100)
    assert result.tolist() == [3.0] * 64
