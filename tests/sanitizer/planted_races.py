"""Small programs with one missing wait each. Their results are still correct, because tasks run in order of submission."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

Stream = torch.rustdev.Stream
Event = torch.rustdev.Event
current_stream = torch.rustdev.current_stream
stream = torch.rustdev.stream

#: What a program computed, and what it should have.
Outcome = tuple[torch.Tensor, torch.Tensor]
Program = Callable[[], Outcome]


@dataclass(frozen=True)
class Planted:
    """A program, the kind of its fault and the operators of both sides."""

    program: Program
    kind: str
    first: str | None
    second: str


PLANTED: list[Planted] = []


def planted(kind: str, first: str | None, second: str) -> Callable[[Program], Program]:
    """Add a program to the list."""

    def add(program: Program) -> Program:
        PLANTED.append(Planted(program, kind, first, second))
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


def forked() -> Stream:
    """Return a stream that has waited for the current one."""
    side = Stream()
    side.wait_stream(current_stream())
    return side


# ---- two streams ----------------------------------------------------------------------------------------------------------------


@planted("unordered", "add", "mul")
def consumer_does_not_wait() -> Outcome:
    x = ones() + 1
    with stream(Stream()):
        y = x * 3
    return y, full(6)


@planted("unordered", "add", "mul")
def result_of_a_side_stream_is_read_too_early() -> Outcome:
    x = ones()
    with stream(forked()):
        y = x + 1
    return y * 3, full(6)


@planted("unordered", "mul", "add")
def a_write_overtakes_a_read() -> Outcome:
    x = ones()
    with stream(forked()):
        y = x * 3
    x.add_(1)
    return y, full(3)


@planted("unordered", "fill_", "fill_")
def two_streams_write() -> Outcome:
    x = ones()
    with stream(forked()):
        x.fill_(5)
    x.fill_(7)
    return x, full(7)


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
def the_event_is_of_another_stream() -> Outcome:
    x, first, second, event = ones(), forked(), forked(), Event()
    with stream(first):
        y = x + 1
    event.record(second)
    current_stream().wait_event(event)
    return y * 3, full(6)


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
def a_chain_of_three_lacks_a_link() -> Outcome:
    x, first, second, third = ones(), forked(), forked(), forked()
    with stream(first):
        y = x + 1
    second.wait_stream(first)
    third.wait_stream(current_stream())
    with stream(third):
        z = y * 3
    return z, full(6)


@planted("unordered", "add", "mul")
def the_wait_is_the_wrong_way_round() -> Outcome:
    x, side = ones(), forked()
    with stream(side):
        y = x + 1
    side.wait_stream(current_stream())
    return y * 3, full(6)


@planted("unordered", "add", "mul")
def the_wait_comes_after_the_use() -> Outcome:
    x, side = ones(), forked()
    with stream(side):
        y = x + 1
    z = y * 3
    current_stream().wait_stream(side)
    return z, full(6)


@planted("unordered", "fill_", "sum")
def a_slice_is_written_and_the_whole_read() -> Outcome:
    x = ones()
    with stream(forked()):
        x[:8].fill_(3)
    return x.sum(), torch.tensor(32.0)


@planted("unordered", "fill_", "fill_")
def slices_overlap() -> Outcome:
    x = ones()
    with stream(forked()):
        x[:8].fill_(3)
    x[6:10].fill_(3)
    return x[:10].clone(), full(3, 10)


@planted("unordered", "fill_", "fill_")
def columns_overlap() -> Outcome:
    x = ones(8, 8)
    with stream(forked()):
        x[:, :4].fill_(3)
    x[:, 3:6].fill_(3)
    return x[:, :6].clone(), full(3, 8, 6)


@planted("unordered", "add", "copy_")
def a_transposed_view_is_read() -> Outcome:
    x = ones(8, 4)
    with stream(forked()):
        x.add_(2)
    return x.t().contiguous(), full(3, 4, 8)


@planted("unordered", "add", "mul")
def an_out_argument_is_written() -> Outcome:
    x, out = ones(), ones()
    with stream(forked()):
        torch.add(x, 1, out=out)
    return out * 3, full(6)


@planted("unordered", "copy_", "mul")
def a_copy_within_the_device_is_not_waited_for() -> Outcome:
    x, target = ones(), ones()
    with stream(forked()):
        target.copy_(x)
    return target * 3, full(3)


@planted("unordered", "_foreach_add.Scalar", "mul")
def a_list_of_tensors_is_changed() -> Outcome:
    tensors = [ones(), ones(), ones()]
    with stream(forked()):
        torch._foreach_add_(tensors, 1)
    return tensors[2] * 3, full(6)


@planted("unordered", "add", "cat")
def one_of_the_parts_of_a_cat() -> Outcome:
    x = ones(4)
    with stream(forked()):
        y = x + 1
    return torch.cat([x + 1, y]), full(2, 8)


@planted("unordered", "add", "_softmax")
def a_softmax_reads() -> Outcome:
    x = ones(4, 4)
    with stream(forked()):
        y = x + 1
    return torch.softmax(y, 1), full(0.25, 4, 4)


@planted("unordered", "add", "gather")
def an_index_reads() -> Outcome:
    x, index = ones(4), torch.arange(4, device="rustdev")
    torch.rustdev.synchronize()
    with stream(forked()):
        y = x + 1
    return y.gather(0, index), full(2, 4)


@planted("unordered", "fill_", "add")
def memory_of_a_freed_tensor_is_used_by_another_stream() -> Outcome:
    one, x = ones(3000), ones(3000)
    x.fill_(1)
    del x
    y = torch.empty(3000, device="rustdev")  # the same memory, which the default stream may still write
    with stream(Stream()):
        torch.add(one, 1, out=y)
    return y, full(2, 3000)


@planted("unordered", "uniform_", "mm")
def a_module_is_used_before_it_is_made() -> Outcome:
    x, module = ones(4, 4), torch.nn.Linear(4, 4, bias=False, device="rustdev")
    with stream(Stream()), torch.no_grad():
        y = module(x)
    torch.rustdev.synchronize()
    return y, x.cpu() @ module.weight.detach().cpu().T


@planted("unordered", "mul", "_foreach_add.List")
def an_optimizer_steps_while_the_weights_are_read() -> Outcome:
    weight = torch.nn.Parameter(ones())
    weight.grad = ones()
    optimizer = torch.optim.SGD([weight], lr=1.0, foreach=True)
    with stream(forked()), torch.no_grad():
        y = weight * 3
    optimizer.step()
    return y, full(3)


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


@planted("unordered", "copy_", "fill_")
def a_buffer_is_filled_while_it_is_read() -> Outcome:
    buffer, side, results = ones(), forked(), []
    for value in range(3):
        with stream(side):
            buffer.fill_(float(value))
        current_stream().wait_stream(side)
        results.append(buffer.clone())  # the next fill does not wait for it
    return results[2], full(2)


@planted("unordered", "add", "mul")
def two_threads_use_their_own_streams() -> Outcome:
    x, made = ones(), []

    def produce() -> None:
        with stream(Stream()):
            made.append(x + 1)

    thread = threading.Thread(target=produce)
    thread.start()
    thread.join()
    return made[0] * 3, full(6)


# ---- the host -------------------------------------------------------------------------------------------------------------------


@planted("unordered", "sum", "item")
def a_value_is_read_on_the_wrong_stream() -> Outcome:
    x = ones()
    with stream(forked()):
        y = x.sum()
    return torch.tensor(y.item()), torch.tensor(16.0)


@planted("unordered", "add", "copy_")
def a_tensor_goes_to_the_host_on_the_wrong_stream() -> Outcome:
    x = ones()
    with stream(forked()):
        y = x + 1
    return y.cpu(), full(2)


@planted("unordered", "add", "aten::special_airy_ai")
def a_kernel_of_the_cpu_reads_on_the_wrong_stream() -> Outcome:
    x = ones()
    with stream(forked()):
        y = x + 1
    return torch.special.airy_ai(y), torch.special.airy_ai(full(2))


# ---- graphs ---------------------------------------------------------------------------------------------------------------------


def captured() -> tuple[torch.rustdev.RustdevGraph, torch.Tensor, torch.Tensor]:
    """Return a graph that triples its input, that and the output."""
    x, graph = ones(), torch.rustdev.RustdevGraph()
    with torch.rustdev.graph(graph):
        y = x * 3
    torch.rustdev.synchronize()
    return graph, x, y


@planted("unordered", "fill_", "graph")
def a_replay_does_not_wait_for_its_input() -> Outcome:
    graph, x, y = captured()
    x.fill_(2)
    with stream(Stream()):
        graph.replay()
    return y, full(6)


@planted("unordered", "graph", "add")
def the_output_of_a_replay_is_read_too_early() -> Outcome:
    graph, _, y = captured()
    with stream(forked()):
        graph.replay()
    return y + 1, full(4)


@planted("unordered", "graph", "fill_")
def the_input_of_a_replay_is_changed_too_early() -> Outcome:
    graph, x, y = captured()
    with stream(forked()):
        graph.replay()
    x.fill_(2)
    return y, full(3)


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


# ---- memory that is freed -------------------------------------------------------------------------------------------------------


@planted("freed-in-use", "mul", "free")
def freed_without_record_stream() -> Outcome:
    x = ones()
    with stream(forked()):
        y = x * 3
    del x
    return y, full(3)


@planted("freed-in-use", "mul", "free")
def memory_of_a_side_stream_is_freed() -> Outcome:
    side = forked()
    with stream(side):
        x = ones()
    current_stream().wait_stream(side)
    y = x * 3
    del x
    return y, full(3)


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
def a_temporary_is_freed() -> Outcome:
    x, side = ones(), Stream()

    def use() -> torch.Tensor:
        temporary = x + 1
        side.wait_stream(current_stream())
        with stream(side):
            return temporary * 3

    y = use()
    current_stream().wait_stream(side)
    return y, full(6)


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


@planted("freed-in-use", "mul", "free")
def a_gradient_is_dropped() -> Outcome:
    x = ones().requires_grad_()
    (x * 3).sum().backward()
    assert x.grad is not None
    with stream(forked()):
        y = x.grad * 3
    x.grad = None
    return y, full(9)


@planted("freed-in-use", "copy_", "free")
def a_source_is_freed_while_it_is_copied() -> Outcome:
    x, target = ones(), torch.zeros(16).pin_memory()
    side = forked()
    with stream(side):
        target.copy_(x, non_blocking=True)
    del x
    side.synchronize()
    return target, full(1)


# ---- pinned memory --------------------------------------------------------------------------------------------------------------


def pinned(*sizes: int) -> torch.Tensor:
    """Return zeros in pinned memory."""
    return torch.zeros(*(sizes or (16,))).pin_memory()


@planted("host-memory", "copy_", "copy_")
def a_staging_buffer_is_read_before_it_is_full() -> Outcome:
    x, buffer = ones(), pinned()
    with stream(forked()):
        buffer.copy_(x, non_blocking=True)
    return buffer.to("rustdev", non_blocking=True), full(1)


@planted("host-memory", "copy_", "copy_")
def two_copies_fill_one_buffer() -> Outcome:
    x, y, buffer = ones(), ones(), pinned()
    with stream(forked()):
        buffer.copy_(x, non_blocking=True)
    buffer.copy_(y, non_blocking=True)
    torch.rustdev.synchronize()
    return buffer, full(1)


@planted("host-memory", "copy_", "copy_")
def a_buffer_is_filled_while_it_is_sent() -> Outcome:
    x, buffer = ones(), pinned()
    with stream(forked()):
        y = buffer.to("rustdev", non_blocking=True)
    buffer.copy_(x, non_blocking=True)
    return y, full(0)


@planted("host-memory", "copy_", "copy_")
def parts_of_a_buffer_overlap() -> Outcome:
    x, buffer = ones(8), pinned()
    with stream(forked()):
        buffer[:8].copy_(x, non_blocking=True)
    buffer[4:12].copy_(x, non_blocking=True)
    torch.rustdev.synchronize()
    return buffer[:12].clone(), full(1, 12)


@planted("host-memory", "copy_", "copy_")
def a_copy_that_waits_for_its_own_stream_only() -> Outcome:
    x, buffer = ones(), pinned()
    with stream(forked()):
        buffer.copy_(x, non_blocking=True)
    return buffer.to("rustdev"), full(1)


# ---- events that were never recorded --------------------------------------------------------------------------------------------


@planted("event-not-recorded", None, "wait_event")
def a_stream_waits_for_a_new_event() -> Outcome:
    x, side = ones(), Stream()
    side.wait_event(Event())
    with stream(side):
        y = x * 3
    return y, full(3)


@planted("event-not-recorded", None, "wait_event")
def an_event_is_waited_for_on_the_current_stream() -> Outcome:
    Event().wait()
    return ones() * 3, full(3)


@planted("event-not-recorded", None, "wait_event")
def an_event_is_waited_for_on_a_stream() -> Outcome:
    Event(enable_timing=True).wait(Stream())
    return ones() * 3, full(3)


@planted("event-not-recorded", None, "wait_event")
def an_event_is_recorded_after_the_wait() -> Outcome:
    x, side, event = ones(), Stream(), Event()
    side.wait_event(event)
    event.record()
    with stream(side):
        y = x * 3
    return y, full(3)


@planted("event-not-recorded", None, "wait_event")
def the_wrong_event_of_a_list() -> Outcome:
    events = [Event() for _ in range(3)]
    for event in events[:2]:
        event.record()
    current_stream().wait_event(events[-1])
    return ones() * 3, full(3)


# ---- two devices ----------------------------------------------------------------------------------------------------------------


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


def programs() -> Iterator[tuple[str, Planted]]:
    """Yield the programs with their names."""
    for entry in PLANTED:
        yield entry.program.__name__, entry
