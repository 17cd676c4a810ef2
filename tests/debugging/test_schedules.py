"""Unlikely orders of tasks: they reveal missing waits, keep correct programs correct, are reproducible, and never deadlock."""

import threading
from pathlib import Path

import children
import pytest
import torch
from in_threads import in_threads
from ordered_programs import ORDERED, Program, a_callback_tells_the_host
from planted_races import PLANTED, Planted

RANDOM = [f"random:{seed}" for seed in range(20)]
FEW = ["eager", "lazy", "reverse-priority", "random:1", "random:2"]
schedule = torch.rustdev.schedule


#: Faults that no order shows: results are equal, or memory that is freed too early is not used again.
UNSEEN = {
    "slices_overlap", "columns_overlap", "a_copy", "the_input_of_a_replay", "freed", "a_source_is_freed_while_it_is_copied",
    "parts_of_a_buffer_overlap", "the_wait_is_the_wrong_way_round", "a_gradient_is_read_on_another_stream",
    "branches_of_a_capture_are_not_ordered", "a_name_is_bound_again", "the_wrong_stream_is_recorded",
    "an_event_is_waited_for_on_the_current_stream", "an_event_is_recorded_after_the_wait",
    "a_copy_from_another_device_is_read_on_a_side_stream",
}  # fmt: skip


def is_right(planted: Planted, order: str) -> bool:
    # Memory of an earlier run holds the right results. A program that reads too early shall find other numbers.
    others = [torch.full((16,), -1.0, device=f"rustdev:{device}") for device in range(2) for _ in range(64)]
    synchronize()
    del others
    with schedule(order):
        computed, expected = planted.program()
        synchronize()
        return torch.equal(computed.cpu(), expected)


def synchronize() -> None:
    for device in range(2):
        torch.rustdev.synchronize(device)


@pytest.mark.parametrize("planted", [it for it in PLANTED if it.name not in UNSEEN], ids=lambda it: it.name)
def test_a_missing_wait_is_right_by_chance_and_shows_in_another_order(planted: Planted) -> None:
    assert is_right(planted, "eager")
    assert not all(is_right(planted, order) for order in RANDOM)


@pytest.mark.parametrize("order", FEW)
@pytest.mark.parametrize("program", [it for it in ORDERED if it is not a_callback_tells_the_host], ids=lambda it: it.__name__)
def test_ordered_programs_are_right_in_every_order(program: Program, order: str) -> None:
    with schedule(order):
        program()
        synchronize()


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
def test_callbacks_sleeps_and_timing_work(order: str) -> None:
    seen = []
    gate, side = threading.Event(), torch.rustdev.Stream()
    start, end = (torch.rustdev.Event(enable_timing=True) for _ in range(2))
    with schedule(order):
        torch.rustdev.launch_host_func(lambda: (gate.wait(), seen.append(1)))
        torch.rustdev.launch_host_func(lambda: seen.append(2))
        side.wait_stream(torch.rustdev.current_stream())
        torch.rustdev.launch_host_func(lambda: seen.append(3), side)
        start.record()
        torch.rustdev._sleep(20_000_000)
        end.record()
        gate.set()
        end.synchronize()
        side.synchronize()
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
def test_many_threads_get_on(order: str) -> None:
    def work(number: int) -> list[float]:
        stream = torch.rustdev.Stream()
        with torch.rustdev.stream(stream):
            x = torch.full((8,), float(number), device="rustdev")
            for _ in range(50):
                x = x + 1
            return x.tolist()

    with schedule(order):
        assert in_threads(work, range(4)) == [[number + 50.0] * 8 for number in range(4)]


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
