"""Compiled code on streams: calls return at once, and kernels keep the order of the stream that they were called on."""

import time
from concurrent.futures import ThreadPoolExecutor

import children
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


def test_threads_have_their_own_streams() -> None:
    compiled = torch.compile(lambda x: x.cumsum(0) * 2, fullgraph=True)
    compiled(torch.ones(50, device="rustdev"))

    def work(value: int) -> bool:
        with torch.rustdev.stream(torch.rustdev.Stream()):
            for _ in range(20):
                result = compiled(torch.full((50,), float(value), device="rustdev"))
            return result[-1].item() == 100 * value

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


def test_a_number_of_the_cpu_is_read_at_the_call() -> None:
    compiled = torch.compile(lambda x, factor: x * factor + 1, fullgraph=True)
    x, factor = torch.ones(64, device="rustdev"), torch.tensor(2.0)
    compiled(x, factor)
    torch.rustdev.synchronize()
    torch.rustdev._sleep(PAUSE // 3)
    result = compiled(x, factor)
    factor.fill_(100)
    assert result.tolist() == [3.0] * 64


def test_memory_is_reused_in_the_order_of_the_stream() -> None:
    compiled = torch.compile(lambda x: x + 1, fullgraph=True)
    x = torch.zeros(10_000, device="rustdev")
    compiled(x)
    torch.rustdev.synchronize()
    torch.rustdev._sleep(PAUSE // 3)
    results = [compiled(x + value).sum() for value in range(30)]
    assert [result.item() for result in results] == [10_000.0 * (value + 1) for value in range(30)]


def test_blocking_launches() -> None:
    program = """
import time, torch
compiled = torch.compile(lambda x: x + 1)
x = torch.zeros(4, device="rustdev")
compiled(x)
torch.rustdev._sleep(50_000_000)
compiled(x)
print(torch.rustdev.current_stream().query())
"""
    done = children.run(program, RUSTDEV_LAUNCH_BLOCKING="1")
    assert done.stdout.split() == ["True"], done.stderr
