"""Small programs with one missing wait each. Their results are still correct, because tasks run in order of submission."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from in_threads import in_thread

Stream = torch.rustdev.Stream
Event = torch.rustdev.Event
current_stream = torch.rustdev.current_stream
stream = torch.rustdev.stream

#: What a program computed, and what it should have.
Outcome = tuple[torch.Tensor, torch.Tensor]
Program = Callable[[], Outcome]


@dataclass(frozen=True)
class Planted:
    """A program, the kind of its fault, the operators of both sides, and the functions in one of which the fault is completed."""

    name: str
    program: Program
    kind: str
    first: str | None
    second: str
    functions: tuple[Callable[..., Any], ...]

    @property
    def lines(self) -> set[int | None]:
        """The lines of the functions."""
        return {line for function in self.functions for _, _, line in function.__code__.co_lines()}

    def matches(self, report: torch.rustdev.SanitizerReport) -> bool:
        """Return whether a report is of the planted fault."""
        first = None if report.first is None else report.first.operator
        return (report.kind, first, report.second.operator) == (self.kind, self.first, self.second)


PLANTED: list[Planted] = []


def planted(kind: str, first: str | None, second: str) -> Callable[[Program], Program]:
    """Add a program to the list."""

    def add(program: Program) -> Program:
        PLANTED.append(Planted(program.__name__, program, kind, first, second, (program,)))
        return program

    return add


def ones(*sizes: int, device: str = "rustdev") -> torch.Tensor:
    """Return ones that a stream has made already."""
    tensor = torch.ones(*(sizes or (16,)), device=device)
    torch.rustdev.synchronize(tensor.device)
    return tensor


def full(value: float, *sizes: int) -> torch.Tensor:
    """Return the same value everywhere, on the CPU."""
    return torch.full(sizes or (16,), float(value))


def pinned(*sizes: int) -> torch.Tensor:
    """Return zeros in pinned memory."""
    return torch.zeros(*(sizes or (16,))).pin_memory()


def forked() -> Stream:
    """Return a stream that has waited for the current one."""
    side = Stream()
    side.wait_stream(current_stream())
    return side


def beside(
    name: str,
    fault: tuple[str, str, str],
    make: Callable[[], Any],
    first: Callable[[Any], Any],
    second: Callable[[Any, Any], Any],
    expected: torch.Tensor,
    of_first: bool = False,
) -> None:
    """Add such a program to the list.

    Args:
        name: of the program.
        fault: its kind and the operators of both sides.
        make: makes what the accesses are given.
        first: the access on the side stream.
        second: the access on the current stream, which is also given the result of the first.
        expected: the result of the second access.
        of_first: whether it is that of the first.
    """

    def program() -> Outcome:
        given = make()
        with stream(forked()):
            one = first(given)
        other = second(given, one)
        torch.rustdev.synchronize()
        return torch.as_tensor(one if of_first else other), expected

    PLANTED.append(Planted(name, program, *fault, (second,)))


def captured() -> tuple[torch.rustdev.RustdevGraph, torch.Tensor, torch.Tensor]:
    """Return a graph that triples its input, that and the output."""
    x, graph = ones(), torch.rustdev.RustdevGraph()
    with torch.rustdev.graph(graph):
        y = x * 3
    torch.rustdev.synchronize()
    return graph, x, y


def stepped() -> tuple[torch.nn.Parameter, torch.optim.Optimizer]:
    """Return a weight with a gradient, and its optimizer."""
    weight = torch.nn.Parameter(ones())
    weight.grad = ones()
    return weight, torch.optim.SGD([weight], lr=1.0, foreach=True)


RACE, FREED, HOST = "unordered", "freed-in-use", "host-memory"
beside("a_result_is_read_too_early", (RACE, "add", "mul"), ones, lambda x: x + 1, lambda _, y: y * 3, full(6))
beside("a_write_overtakes_a_read", (RACE, "mul", "add"), ones, lambda x: x * 3, lambda x, _: x.add_(1), full(3), of_first=True)
beside("two_streams_write", (RACE, "fill_", "fill_"), ones, lambda x: x.fill_(5), lambda x, _: x.fill_(7), full(7))
beside("a_slice_is_written", (RACE, "fill_", "sum"), ones, lambda x: x[:8].fill_(3), lambda x, _: x.sum(), torch.tensor(32.0))
beside("slices_overlap", (RACE, "fill_", "fill_"), ones, lambda x: x[:8].fill_(3), lambda x, _: x[6:10].fill_(3), full(3, 4))
beside(
    "columns_overlap", (RACE, "fill_", "fill_"), lambda: ones(8, 8),
    lambda x: x[:, :4].fill_(3), lambda x, _: x[:, 3:6].fill_(3), full(3, 8, 3),
)  # fmt: skip
beside(
    "a_transposed_view_is_read", (RACE, "add", "copy_"), lambda: ones(8, 4),
    lambda x: x.add_(2), lambda x, _: x.t().contiguous(), full(3, 4, 8),
)  # fmt: skip
beside("an_out_argument", (RACE, "add", "mul"), ones, lambda x: torch.add(x, 1, out=x), lambda x, _: x * 3, full(6))
beside("a_copy", (RACE, "copy_", "mul"), lambda: ones(2, 16), lambda x: x[0].copy_(x[1]), lambda x, _: x[0] * 3, full(3))
beside(
    "a_list_of_tensors_is_changed", (RACE, "_foreach_add.Scalar", "mul"), lambda: [ones(), ones(), ones()],
    lambda tensors: torch._foreach_add_(tensors, 1), lambda tensors, _: tensors[2] * 3, full(6),
)  # fmt: skip
beside("a_part_of_a_cat", (RACE, "add", "cat"), ones, lambda x: x + 1, lambda x, y: torch.cat([x + 1, y]), full(2, 32))
beside("an_index_reads", (RACE, "add", "gather"), ones, lambda x: x + 1, lambda x, y: y.gather(0, x.long()), full(2))
beside(
    "an_optimizer_steps_while_the_weights_are_read", (RACE, "mul", "_foreach_add.List"), stepped,
    lambda given: given[0].detach() * 3, lambda given, _: given[1].step(), full(3), of_first=True,
)  # fmt: skip
beside("a_value_is_read", (RACE, "sum", "item"), ones, lambda x: x.sum(), lambda _, y: y.item(), torch.tensor(16.0))
beside("a_tensor_goes_to_the_host", (RACE, "add", "copy_"), ones, lambda x: x + 1, lambda _, y: y.cpu(), full(2))
beside(
    "a_kernel_of_the_cpu_reads", (RACE, "add", "aten::special_airy_ai"), ones,
    lambda x: x + 1, lambda _, y: torch.special.airy_ai(y), torch.special.airy_ai(full(2)),
)  # fmt: skip
beside("the_output_of_a_replay", (RACE, "graph", "add"), captured, lambda it: it[0].replay(), lambda it, _: it[2] + 1, full(4))
beside(
    "the_input_of_a_replay", (RACE, "graph", "fill_"), captured, lambda it: it[0].replay(), lambda it, _: it[1].fill_(2), full(2)
)
beside("freed", (FREED, "mul", "free"), lambda: [ones()], lambda it: it[0] * 3, lambda it, _: it.clear(), full(3), of_first=True)
beside(
    "a_source_is_freed_while_it_is_copied", (FREED, "copy_", "free"), lambda: [ones(), pinned()],
    lambda it: it[1].copy_(it[0], non_blocking=True), lambda it, _: it.clear(), full(1), of_first=True,
)  # fmt: skip
beside(
    "a_staging_buffer_is_read_before_it_is_full", (HOST, "copy_", "copy_"), lambda: (ones(), pinned()),
    lambda it: it[1].copy_(it[0], non_blocking=True), lambda it, _: it[1].to("rustdev", non_blocking=True), full(1),
)  # fmt: skip
beside(
    "a_buffer_is_filled_while_it_is_sent", (HOST, "copy_", "copy_"), lambda: (ones(), pinned()),
    lambda it: it[1].to("rustdev", non_blocking=True), lambda it, _: it[1].copy_(it[0], non_blocking=True), full(0), of_first=True,
)  # fmt: skip
beside(
    "parts_of_a_buffer_overlap", (HOST, "copy_", "copy_"), lambda: (ones(8), pinned()),
    lambda it: it[1][:8].copy_(it[0], non_blocking=True), lambda it, _: it[1][4:12].copy_(it[0], non_blocking=True), full(1, 8),
)  # fmt: skip
beside(
    "a_copy_that_waits_for_its_own_stream_only", (HOST, "copy_", "copy_"), lambda: (ones(), pinned()),
    lambda it: it[1].copy_(it[0], non_blocking=True), lambda it, _: it[1].to("rustdev"), full(1),
)  # fmt: skip


@planted("unordered", "add", "mul")
def consumer_does_not_wait() -> Outcome:
    x = ones() + 1
    with stream(Stream()):
        y = x * 3
    return y, full(6)


@planted("unordered", "add", "mul")
def two_side_streams_know_the_default_one_only() -> Outcome:
    x = ones()
    first, second = forked(), forked()
    with stream(first):
        y = x + 1
    with stream(second):
        z = y * 3
    return z, full(6)


@planted("unordered", "add", "mul")
def the_event_is_recorded_too_early() -> Outcome:
    side, x, event = Stream(), ones(), Event()
    event.record()
    y = x + 1
    side.wait_event(event)
    with stream(side):
        z = y * 3
    return z, full(6)


@planted("unordered", "add", "mul")
def the_event_keeps_its_first_recording() -> Outcome:
    x, side, event = ones(), Stream(), Event()
    x.add_(1)
    event.record()
    side.wait_event(event)
    x.add_(1)
    event.record()
    with stream(side):
        y = x * 3
    return y, full(9)


@planted("unordered", "add", "mul")
def the_host_waits_for_another_stream() -> Outcome:
    x, first, second = ones(), forked(), forked()
    with stream(first):
        y = x + 1
    second.synchronize()
    return y * 3, full(6)


@planted("unordered", "add", "mul")
def the_host_waits_for_an_earlier_event() -> Outcome:
    x, side, event = ones(), forked(), Event()
    event.record(side)
    with stream(side):
        y = x + 1
    event.synchronize()
    return y * 3, full(6)


@planted("unordered", "add", "mul")
def the_wait_is_the_wrong_way_round() -> Outcome:
    x, side = ones(), forked()
    with stream(side):
        y = x + 1
    side.wait_stream(current_stream())
    return y * 3, full(6)


@planted("unordered", "fill_", "add")
def memory_of_a_freed_tensor_is_used_by_another_stream() -> Outcome:
    one, x = ones(3000), ones(3000)
    x.fill_(1)
    del x
    y = torch.empty(3000, device="rustdev")  # the same memory, which the default stream may still write
    with stream(Stream()):
        torch.add(one, 1, out=y)
    return y, full(2, 3000)


@planted("unordered", "mul", "add")
def a_gradient_is_read_on_another_stream() -> Outcome:
    x = ones().requires_grad_()
    loss = (x * 3).sum()
    torch.rustdev.synchronize()
    loss.backward()
    assert x.grad is not None
    with stream(Stream()):
        y = x.grad + 1
    return y, full(4)


@planted("unordered", "add", "mul")
def two_threads_use_their_own_streams() -> Outcome:
    x = ones()

    def produce() -> torch.Tensor:
        with stream(Stream()):
            return x + 1

    return in_thread(produce) * 3, full(6)


@planted("unordered", "fill_", "graph")
def a_replay_does_not_wait_for_its_input() -> Outcome:
    graph, x, y = captured()
    x.fill_(2)
    with stream(Stream()):
        graph.replay()
    return y, full(6)


@planted("unordered", "add", "mul")
def branches_of_a_capture_are_not_ordered() -> Outcome:
    x, graph = ones(), torch.rustdev.RustdevGraph()
    # The next stream of the pool is another one.
    with torch.rustdev.graph(graph, stream=Stream()):
        side = forked()
        with stream(side):
            y = x + 1
        z = y * 3
        current_stream().wait_stream(side)
    graph.replay()
    return z, full(6)


@planted("freed-in-use", "add", "free")
def memory_of_a_side_stream_is_freed_and_used_again() -> Outcome:
    x, side = ones(3000), forked()
    with stream(side):
        y = x * 3
    current_stream().wait_stream(side)
    z = y + 1
    del y
    with stream(side):  # which does not wait for the sum
        x * 5
    side.wait_stream(current_stream())
    return z, full(4, 3000)


@planted("freed-in-use", "mul", "free")
def a_name_is_bound_again() -> Outcome:
    side, x = Stream(), ones()
    for _ in range(2):
        y = x + 1
        side.wait_stream(current_stream())
        with stream(side):
            z = y * 3
    return z, full(6)


@planted("freed-in-use", "mul", "free")
def the_wrong_stream_is_recorded() -> Outcome:
    x, first, second = ones(), forked(), forked()
    with stream(first):
        y = x * 3
    x.record_stream(second)
    del x
    return y, full(3)


@planted("event-not-recorded", None, "wait_event")
def an_event_is_waited_for_on_the_current_stream() -> Outcome:
    Event().wait()
    return ones() * 3, full(3)


@planted("event-not-recorded", None, "wait_event")
def an_event_is_recorded_after_the_wait() -> Outcome:
    x, side, event = ones(), Stream(), Event()
    side.wait_event(event)
    event.record()
    with stream(side):
        y = x * 3
    return y, full(3)


@planted("unordered", "add", "copy_")
def a_copy_to_another_device_waits_for_the_current_stream_only() -> Outcome:
    x = ones(device="rustdev:1")
    with torch.rustdev.device(1), stream(Stream(1)):
        y = x + 1
    return y.to("rustdev:0"), full(2)


@planted("other-device", "add", "copy_")
def a_copy_overwrites_what_a_side_stream_uses() -> Outcome:
    x, target = ones(device="rustdev:1"), ones()
    with stream(forked()):
        target.add_(1)
    target.copy_(x)
    return target, full(1)


@planted("other-device", "copy_", "mul")
def a_copy_from_another_device_is_read_on_a_side_stream() -> Outcome:
    x, target = ones(device="rustdev:1"), ones()
    target.copy_(x)
    with stream(Stream()):
        y = target * 3
    return y, full(3)
