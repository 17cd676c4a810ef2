"""Unlikely orders of tasks: they reveal missing waits, keep correct programs correct, are reproducible, and never deadlock."""

import threading
from pathlib import Path

import children
import planted
import pytest
import torch

RANDOM = [f"random:{seed}" for seed in range(20)]
ORDERS = ["eager", "lazy", "reverse-priority", *RANDOM]
FEW = ["eager", "lazy", "reverse-priority", "random:1", "random:2"]
schedule = torch.rustdev.schedule


def outcome(name: str, waits: bool, order: str) -> list[float]:
    with schedule(order):
        return planted.PROGRAMS[name][0](waits)


@pytest.mark.parametrize("name", planted.PROGRAMS)
def test_a_missing_wait_is_right_by_chance_and_shows_in_another_order(name: str) -> None:
    program, expected = planted.PROGRAMS[name]
    assert program(False) == expected
    assert outcome(name, False, "eager") == expected
    wrong = [order for order in ORDERS if outcome(name, False, order) != expected]
    assert any(order in RANDOM for order in wrong), wrong


@pytest.mark.parametrize("name", planted.PROGRAMS)
def test_with_the_wait_every_order_is_right(name: str) -> None:
    program, expected = planted.PROGRAMS[name]
    assert program(True) == expected
    assert [order for order in ORDERS if outcome(name, True, order) != expected] == []


def tasks_of(code: str, order: str, directory: Path) -> list[str]:
    """Return the order in which a program's tasks ran."""
    log = directory / "tasks"
    log.unlink(missing_ok=True)
    children.run(code, check=True, RUSTDEV_SCHEDULE=order, RUSTDEV_SCHEDULE_LOG=str(log))
    return log.read_text().splitlines()


MANY = """
    import torch
    streams = [torch.rustdev.Stream() for _ in range(4)]
    tensors = [torch.ones(8, device="rustdev") for _ in range(4)]
    event = torch.rustdev.Event()
    for number in range(40):
        with torch.rustdev.stream(streams[number % 4]):
            if number % 5 == 0:
                streams[number % 4].wait_event(event)
            tensors[number % 3].add_(number)
            if number % 7 == 0:
                event.record()
        if number % 11 == 0:
            event.query()
    torch.rustdev.synchronize()
"""


def test_a_seed_repeats_its_order_exactly(tmp_path: Path) -> None:
    orders = [tasks_of(MANY, f"random:{seed}", tmp_path) for seed in range(3)]
    assert [tasks_of(MANY, f"random:{seed}", tmp_path) for seed in range(3)] == orders
    assert len({tuple(order) for order in orders}) == 3
    added = [sorted(task for task in order if task.endswith("add")) for order in orders]
    assert added == [added[0]] * 3, "the same work in each"


def test_eager_runs_in_the_order_of_submission(tmp_path: Path) -> None:
    tasks = tasks_of(MANY, "eager", tmp_path)
    assert tasks == tasks_of(MANY, "eager", tmp_path)
    streams = [task.split()[2] for task in tasks if task.endswith("add")]
    assert [streams[number] for number in range(40)] == streams[:4] * 10


def test_lazy_runs_what_a_wait_needs_and_nothing_else(tmp_path: Path) -> None:
    code = """
        import torch
        a, b, c = (torch.rustdev.Stream() for _ in range(3))
        x = torch.ones(8, device="rustdev")
        with torch.rustdev.stream(a):
            x + 1
            event = a.record_event()
            x * 2
        with torch.rustdev.stream(b):
            x - 1
        with torch.rustdev.stream(c):
            c.wait_event(event)
            x / 2
        c.synchronize()
    """
    tasks = [task.split(": ")[1] for task in tasks_of(code, "lazy", tmp_path)]
    assert tasks == ["add", "event_record", "event_wait", "div"]


@pytest.mark.parametrize("order", FEW)
def test_asking_again_and_again_gets_on(order: str) -> None:
    stream = torch.rustdev.Stream()
    x = torch.ones(8, device="rustdev")
    with schedule(order):
        with torch.rustdev.stream(planted.SIDE):
            y = x + 1
        stream.wait_stream(planted.SIDE)
        with torch.rustdev.stream(stream):
            z = y + 1
            event = stream.record_event()
        while not event.query():
            pass
        with torch.rustdev.stream(stream):
            z += 1
        while not stream.query():
            pass
        assert z.tolist() == [4] * 8


@pytest.mark.parametrize("order", FEW)
def test_callbacks_sleeps_and_timing_work(order: str) -> None:
    seen = []
    gate = threading.Event()
    start, end = (torch.rustdev.Event(enable_timing=True) for _ in range(2))
    with schedule(order):
        torch.rustdev.launch_host_func(lambda: (gate.wait(), seen.append(1)))
        torch.rustdev.launch_host_func(lambda: seen.append(2))
        planted.SIDE.wait_stream(torch.rustdev.current_stream())
        torch.rustdev.launch_host_func(lambda: seen.append(3), planted.SIDE)
        start.record()
        torch.rustdev._sleep(20_000_000)
        end.record()
        gate.set()
        end.synchronize()
        planted.SIDE.synchronize()
        assert start.elapsed_time(end) >= 20
    assert seen == [1, 2, 3]


@pytest.mark.parametrize("order", FEW)
def test_a_failure_is_raised_and_the_stream_works_on(order: str) -> None:
    x = torch.ones(8, device="rustdev")
    with schedule(order):
        with torch.rustdev.inject_faults("kernel:add:1"):
            x + 1
            with pytest.raises(torch.AcceleratorError, match="add failed"):
                torch.rustdev.synchronize()
        assert (x + 2).tolist() == [3] * 8


@pytest.mark.parametrize("order", FEW)
def test_training_and_graphs_give_the_same_numbers(order: str) -> None:
    def train() -> list[torch.Tensor]:
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1)).to("rustdev")
        optimizer = torch.optim.AdamW(model.parameters())
        x = torch.randn(32, 8, device="rustdev")
        for _ in range(5):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        graph, y = torch.rustdev.Graph(), torch.zeros(4, device="rustdev")
        torch.rustdev.synchronize()
        with torch.rustdev.graph(graph):
            y += 1
        graph.replay()
        graph.replay()
        return [*(parameter.detach().cpu() for parameter in model.parameters()), y.cpu()]

    expected = train()
    with schedule(order):
        found = train()
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


@pytest.mark.parametrize("order", FEW)
def test_many_threads_get_on(order: str) -> None:
    results: dict[int, list[float]] = {}

    def work(number: int) -> None:
        stream = torch.rustdev.Stream()
        with torch.rustdev.stream(stream):
            x = torch.full((8,), float(number), device="rustdev")
            for _ in range(50):
                x = x + 1
            results[number] = x.tolist()

    with schedule(order):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == {number: [number + 50.0] * 8 for number in range(4)}


def test_orders_nest_and_are_restored() -> None:
    x = torch.ones(8, device="rustdev")
    with schedule("lazy"):
        with schedule("eager"):
            x + 1
            assert torch.rustdev.current_stream().query()
        x + 1
        assert not torch.rustdev.current_stream().query()
    large = torch.ones(1 << 20, device="rustdev")
    event = (large + 1, torch.rustdev.current_stream().record_event())[1]
    while not event.query():  # the compute threads run it
        pass


@pytest.mark.parametrize("order", ["", "random", "random:x", "random:-1", "soon"])
def test_another_order_is_refused(order: str) -> None:
    with pytest.raises(ValueError, match="random:SEED, lazy, eager or reverse-priority"), schedule(order):
        pass
