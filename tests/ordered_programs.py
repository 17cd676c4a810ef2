"""Correctly synchronized programs, with all kinds of synchronization: the race detector must not report anything."""

import threading
from collections.abc import Callable

import torch
from planted_races import forked, full, ones, pinned
from torch.utils.data import DataLoader, TensorDataset

Stream = torch.rustdev.Stream
Event = torch.rustdev.Event
current_stream = torch.rustdev.current_stream
stream = torch.rustdev.stream

Program = Callable[[], None]
ORDERED: list[Program] = []


def ordered(program: Program) -> Program:
    """Add a program to the list."""
    ORDERED.append(program)
    return program


def expect(computed: torch.Tensor, expected: torch.Tensor) -> None:
    """Compare a result that may still be in the making on the current stream."""
    torch.testing.assert_close(computed.cpu(), expected)


@ordered
def both_ways_by_wait_stream() -> None:
    x = ones() + 1
    side = forked()
    with stream(side):
        y = x * 3
    current_stream().wait_stream(side)
    x.add_(1)
    expect(y + 1, full(7))


@ordered
def an_event_that_is_recorded_again() -> None:
    x, side, event = ones(), Stream(), Event()
    for _ in range(3):
        x.add_(1)
        event.record()
        side.wait_event(event)
        with stream(side):
            y = x * 3
        event.record(side)
        event.wait()
    expect(y, full(12))


@ordered
def by_the_host() -> None:
    x, first, second, third = ones(), Stream(), Stream(), Stream()
    with stream(first):
        y = x + 1
    first.synchronize()
    with stream(second):
        z = y * 3
    torch.rustdev.synchronize()
    with stream(third):
        z.add_(1)
        event = third.record_event()
    event.synchronize()
    expect(z, full(7))


@ordered
def by_asking_until_it_is_done() -> None:
    side = forked()
    with stream(side):
        x = torch.ones(16, device="rustdev") + 1
    while not side.query():
        pass
    x.mul_(2)
    event = current_stream().record_event()
    while not event.query():
        pass
    with stream(side):
        expect(x, full(4))


@ordered
def by_reading_a_value() -> None:
    side = forked()
    with stream(side):
        x = torch.ones(16, device="rustdev") + 1
        assert x.sum().item() == 32
    expect(x * 2, full(4))


@ordered
def two_readers() -> None:
    x = ones() + 1
    sides = [forked() for _ in range(3)]
    results = []
    for side in sides:
        with stream(side):
            results.append(x * 2)
    results.append(x * 2)
    for side in sides:
        current_stream().wait_stream(side)
    x.add_(1)
    for result in results:
        expect(result, full(4))


def fill_parts(parts: list[torch.Tensor]) -> None:
    """Fill each part on a stream of its own, and wait for all."""
    sides = [forked() for _ in parts]
    for value, (part, side) in enumerate(zip(parts, sides, strict=True)):
        with stream(side):
            part.fill_(float(value))
            part.add_(1)
    for side in sides:
        current_stream().wait_stream(side)


@ordered
def columns() -> None:
    x = ones(6, 9)
    fill_parts([x[:, :2], x[:, 2:5], x[:, 5:]])
    expect(x, torch.tensor([1.0] * 2 + [2.0] * 3 + [3.0] * 4).expand(6, 9))


@ordered
def freed_after_record_stream() -> None:
    for _ in range(3):
        x = torch.ones(3000, device="rustdev") + 1
        side = forked()
        with stream(side):
            y = x * 3
        x.record_stream(side)
        del x
        torch.ones(3000, device="rustdev").mul_(0)
        current_stream().wait_stream(side)
        expect(y, full(6, 3000))


@ordered
def freed_after_a_wait() -> None:
    x, side = ones(3000) + 1, Stream()
    for _ in range(3):
        side.wait_stream(current_stream())
        with stream(side):
            y = x * 3
        current_stream().wait_stream(side)
        del x
        x = y + 0
        y.record_stream(current_stream())
    expect(x, full(54, 3000))


@ordered
def freed_before_its_own_stream_waits() -> None:
    x, side = ones(3000), Stream()
    for _ in range(3):
        side.wait_stream(current_stream())
        with stream(side):
            y = x * 3
        current_stream().wait_stream(side)
        z = y + 1
        del y
    expect(z, full(4, 3000))


@ordered
def freed_on_its_own_stream_and_used_again() -> None:
    for value in range(20):
        x = torch.full((1000,), float(value), device="rustdev")
        y = x * 2
        del x
        z = y + 1
        del y
        expect(z, full(2.0 * value + 1, 1000))


@ordered
def caches_are_emptied() -> None:
    side = forked()
    for _ in range(3):
        x = torch.ones(1 << 20, device="rustdev")
        with stream(side):
            y = torch.ones(1 << 20, device="rustdev")
        side.synchronize()
        y.add_(1)
        torch.rustdev.synchronize()
        del x, y
        torch.rustdev.empty_cache()


@ordered
def a_chosen_pool() -> None:
    pool, side = torch.rustdev.MemPool(), Stream()
    with torch.rustdev.use_mem_pool(pool):
        x = torch.ones(1000, device="rustdev")
    side.wait_stream(current_stream())
    with stream(side):
        y = x + 1
    current_stream().wait_stream(side)
    del x
    expect(y, full(2, 1000))


@ordered
def staging_through_pinned_memory() -> None:
    buffer, side = pinned(), Stream()
    for value in range(4):
        buffer.fill_(value)
        with stream(side):
            x = buffer.to("rustdev", non_blocking=True)
            copied = side.record_event()
        current_stream().wait_event(copied)
        y = x + 1
        x.record_stream(current_stream())
        expect(y, full(value + 1))
        copied.synchronize()


@ordered
def pinned_memory_is_freed_and_used_again() -> None:
    for value in range(8):
        sent = torch.full((5000,), float(value)).pin_memory().to("rustdev", non_blocking=True)
        back = sent.to("cpu", non_blocking=True)
        torch.rustdev.synchronize()
        assert back[0] == value


@ordered
def a_loader_that_pins() -> None:
    data = TensorDataset(torch.arange(64.0).reshape(32, 2), torch.arange(32))
    side, total = Stream(), torch.zeros((), device="rustdev")
    for inputs, targets in DataLoader(data, batch_size=4, num_workers=1, pin_memory=True):
        with stream(side):
            on_device, numbers = inputs.to("rustdev", non_blocking=True), targets.to("rustdev", non_blocking=True)
        current_stream().wait_stream(side)
        for tensor in (on_device, numbers):
            tensor.record_stream(current_stream())
        total += on_device.sum() + numbers.sum()
    expect(total, torch.tensor(float(sum(range(64)) + sum(range(32)))))


@ordered
def kernels_of_the_cpu() -> None:
    x, side = ones(), Stream()
    for _ in range(3):
        x.add_(1)
        value = torch.special.airy_ai(x)
        side.wait_stream(current_stream())
        with stream(side):
            value.add_(1)
            torch.special.airy_ai(x)
        current_stream().wait_stream(side)
    expect(value, torch.special.airy_ai(full(4)) + 1)


@ordered
def a_callback_tells_the_host() -> None:
    side, done = forked(), threading.Event()
    with stream(side):
        x = torch.ones(16, device="rustdev") + 1
    torch.rustdev.launch_host_func(done.set, side)
    assert done.wait(60)
    expect(x * 2, full(4))


@ordered
def a_callback_waits_for_another() -> None:
    first, second, done = forked(), forked(), threading.Event()
    with stream(first):
        x = torch.ones(16, device="rustdev") + 1
    torch.rustdev.launch_host_func(done.set, first)
    torch.rustdev.launch_host_func(lambda: done.wait(60), second)
    with stream(second):
        expect(x * 2, full(4))


def model() -> torch.nn.Module:
    """Return a small network."""
    layers = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 10)
    )
    return layers.to("rustdev")


@ordered
def training() -> None:
    for options in ({"foreach": True}, {"fused": True}):
        network = model()
        optimizer = torch.optim.AdamW(network.parameters(), lr=0.1, **options)
        for _ in range(3):
            inputs, targets = torch.randn(4, 1, 8, 8, device="rustdev"), torch.randint(10, (4,), device="rustdev")
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(network(inputs), targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            loss.item()


@ordered
def training_with_autocast_and_a_scaler() -> None:
    network, scaler = model(), torch.amp.GradScaler("rustdev")
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(3):
        with torch.autocast("rustdev", dtype=torch.bfloat16):
            loss = network(torch.randn(4, 1, 8, 8, device="rustdev")).float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


@ordered
def backward_on_a_side_stream() -> None:
    network, side = model(), Stream()
    side.wait_stream(current_stream())
    with stream(side):
        network(torch.randn(4, 1, 8, 8, device="rustdev")).sum().backward()
    current_stream().wait_stream(side)
    for parameter in network.parameters():
        assert parameter.grad is not None
        parameter.grad.record_stream(current_stream())
        parameter.grad.add_(1)


@ordered
def halves_of_a_network_on_two_streams() -> None:
    first, second = torch.nn.Linear(4, 4, device="rustdev"), torch.nn.Linear(4, 1, device="rustdev")
    side = forked()
    x = torch.randn(8, 4, device="rustdev")
    hidden = first(x)
    side.wait_stream(current_stream())
    with stream(side):
        loss = second(hidden).sum()
    current_stream().wait_stream(side)
    loss.backward()
    torch.rustdev.synchronize()


@ordered
def a_graph_on_two_streams() -> None:
    x, graph, side = ones(), torch.rustdev.RustdevGraph(), Stream()
    with torch.rustdev.graph(graph):
        y = x * 3
        z = y + 1
    for value in range(3):
        x.fill_(value)
        graph.replay()
        expect(z, full(3 * value + 1))
    side.wait_stream(current_stream())
    with stream(side):
        graph.replay()
        graph.replay()
    current_stream().wait_stream(side)
    graph.replay()
    expect(z, full(7))


@ordered
def a_capture_with_branches() -> None:
    x, graph = ones(), torch.rustdev.RustdevGraph()
    with torch.rustdev.graph(graph):
        side, event = forked(), Event()
        with stream(side):
            y = x * 3
            event.record()
        z = x + 1
        current_stream().wait_event(event)
        total = y + z
        temporary = total * 2
        del temporary
        again = total * 3
    graph.replay()
    expect(again, full(15))
    del graph


@ordered
def graphs_that_share_a_pool() -> None:
    x, pool, graphs = ones(), torch.rustdev.graph_pool_handle(), []
    for _ in range(2):
        graph = torch.rustdev.RustdevGraph()
        with torch.rustdev.graph(graph, pool=pool):
            x.add_(1)
            (x * 2).sum()
        graphs.append(graph)
    for graph in graphs * 2:
        graph.replay()
    expect(x, full(5))


@ordered
def graphed_callables() -> None:
    layer = torch.nn.Linear(4, 4, device="rustdev")
    x = torch.randn(2, 4, device="rustdev", requires_grad=True)
    graphed = torch.rustdev.make_graphed_callables(layer, (x,))
    for _ in range(3):
        graphed(torch.randn(2, 4, device="rustdev", requires_grad=True)).sum().backward()


@ordered
def copies_between_devices() -> None:
    x = ones(device="rustdev:1") + 1
    y = x.to("rustdev:0") * 3
    z = y.to("rustdev:1", non_blocking=True)
    z.add_(1)
    x.copy_(y)
    expect(z, full(7))
    expect(x, full(6))


@ordered
def a_pipeline_over_two_devices() -> None:
    first, second = torch.nn.Linear(4, 4, device="rustdev:0"), torch.nn.Linear(4, 1, device="rustdev:1")
    for _ in range(3):
        second(first(torch.randn(8, 4, device="rustdev:0")).to("rustdev:1")).sum().backward()


@ordered
def a_stream_waits_for_another_device() -> None:
    side = Stream(1)
    with torch.rustdev.device(1), stream(side):
        x = torch.ones(16, device="rustdev:1") + 1
    torch.rustdev.current_stream(1).wait_stream(side)
    expect(x.to("rustdev:0") * 2, full(4))
