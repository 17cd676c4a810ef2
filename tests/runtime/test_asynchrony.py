"""Work is asynchronous: submission returns at once, streams overlap, and a missing wait is visible."""

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import children
import pytest
import torch

pytestmark = pytest.mark.clock

MILLISECOND = 1_000_000  # nanoseconds
Stream = torch.rustdev.Stream


def seconds_to_submit(submit: Callable[[], object]) -> float:
    """Return how long the fastest of three submissions of 100 ms of work took, each finished before the next."""
    times = []
    for _ in range(3):
        torch.rustdev.synchronize()
        begin = time.perf_counter()
        submit()
        times.append(time.perf_counter() - begin)
        torch.rustdev.synchronize()
        assert time.perf_counter() - begin >= 0.1
    return min(times)


@pytest.mark.parametrize(
    "submit", [lambda: torch.rustdev._sleep(100 * MILLISECOND), lambda: torch.rustdev.launch_host_func(lambda: time.sleep(0.1))]
)
def test_long_tasks_return_at_once(submit: Callable[[], object]) -> None:
    assert seconds_to_submit(submit) < 0.005


def test_synchronize_waits_for_a_host_function() -> None:
    done = threading.Event()
    torch.rustdev.launch_host_func(lambda: (time.sleep(0.1), done.set()))
    assert not done.is_set()
    torch.rustdev.synchronize()
    assert done.is_set()


def test_operators_behind_a_long_task_return_at_once() -> None:
    tensor = torch.zeros(16, device="rustdev")
    torch.rustdev.synchronize()
    torch.rustdev._sleep(100 * MILLISECOND)
    begin = time.perf_counter()
    for _ in range(10):
        tensor.add_(1)
    assert time.perf_counter() - begin < 0.05
    assert not torch.rustdev.current_stream().query()
    assert tensor.tolist() == [10.0] * 16


@pytest.mark.parametrize("devices", [(0, 0), (0, 1)], ids=["streams", "devices"])
def test_streams_overlap(devices: tuple[int, int]) -> None:
    begin = time.perf_counter()
    for device in devices:
        with torch.rustdev.stream(Stream(device)):
            torch.rustdev._sleep(200 * MILLISECOND)
    for device in devices:
        torch.rustdev.synchronize(device)
    assert 0.2 <= time.perf_counter() - begin < 0.38


def produce(producer: torch.Stream) -> torch.Tensor:
    """Return a tensor of zeros that a stream turns into ones, a while later."""
    data = torch.zeros(1024, device="rustdev")
    torch.rustdev.synchronize()
    with torch.rustdev.stream(producer):
        torch.rustdev._sleep(100 * MILLISECOND)
        data.add_(1)
    return data


def test_missing_wait_is_observable_and_waiting_fixes_it() -> None:
    producer, consumer = Stream(), Stream()
    data = produce(producer)
    with torch.rustdev.stream(consumer):
        too_early = data.clone()
    consumer.synchronize()
    assert too_early.tolist() == [0.0] * 1024
    torch.rustdev.synchronize()

    data = produce(producer)
    consumer.wait_stream(producer)
    with torch.rustdev.stream(consumer):
        in_time = data.clone()
    consumer.synchronize()
    assert in_time.tolist() == [1.0] * 1024


def test_non_blocking_copy_from_pinned_memory_returns_at_once() -> None:
    source = torch.ones(1 << 16).pin_memory()
    torch.rustdev._sleep(100 * MILLISECOND)
    begin = time.perf_counter()
    target = source.to("rustdev", non_blocking=True)
    assert time.perf_counter() - begin < 0.05
    assert not torch.rustdev.current_stream().query()
    assert target.sum().item() == 1 << 16


def test_item_waits_for_the_stream() -> None:
    tensor = torch.zeros(1, device="rustdev")
    torch.rustdev._sleep(50 * MILLISECOND)
    tensor.add_(5)
    assert tensor.item() == 5


def test_launch_blocking_makes_every_call_synchronous() -> None:
    code = (
        "import time, torch; begin = time.perf_counter(); torch.rustdev._sleep(100_000_000); "
        "print(time.perf_counter() - begin >= 0.1)"
    )
    result = children.run(code, RUSTDEV_LAUNCH_BLOCKING="1")
    assert result.stdout.strip() == "True", result.stderr


OPERATORS = (
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: x - 2 * y,
    lambda x, y: torch.relu(x) + y.exp(),
    lambda x, y: torch.mm(x, y.t()),
    lambda x, y: x.t() + y,
    lambda x, y: torch.maximum(x, y).sum(0).expand(8, 8),
    lambda x, y: torch.where(x > y, x, y),
    lambda x, y: torch.cat([x, y])[::2],
    lambda x, y: (x.sum() + y).clamp(-1, 1),
)


def stress(seed: int, device: str, deadline: float) -> None:
    """Run random operators on streams of one device and compare each chain with the CPU's."""
    choice = random.Random(seed)
    source = torch.Generator().manual_seed(seed)
    while time.monotonic() < deadline:
        x, y = torch.rand(8, 8, generator=source), torch.rand(8, 8, generator=source)
        with torch.rustdev.stream(Stream(device)):
            on_device = x.to(device), y.to(device)
            for _ in range(choice.randrange(1, 8)):
                operator = choice.choice(OPERATORS)
                x, y = operator(x, y).tanh(), x
                on_device = operator(*on_device).tanh(), on_device[0]
            torch.testing.assert_close(on_device[0].cpu(), x, rtol=1e-4, atol=1e-4)


def test_threads_and_devices_agree_with_the_cpu() -> None:
    deadline = time.monotonic() + 2
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda seed: stress(seed, f"rustdev:{seed % 2}", deadline), range(8)))
