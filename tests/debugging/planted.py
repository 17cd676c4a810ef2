"""Programs for streams with a wait that can be left out: without it they are right by chance, and wrong in an unlikely order.

Each returns numbers; ``waits`` says whether it has the wait.
"""

from collections.abc import Callable

import torch

Program = Callable[[bool], list[float]]

SIDE, OTHER = torch.rustdev.Stream(), torch.rustdev.Stream()
PROGRAMS: dict[str, tuple[Program, list[float]]] = {}


def planted(*expected: float) -> Callable[[Program], Program]:
    """Add a program, with what it returns where it is right."""

    def add(program: Program) -> Program:
        PROGRAMS[program.__name__] = (program, list(expected))
        return program

    return add


def ones(size: int = 4) -> torch.Tensor:
    """Return a tensor that is complete."""
    tensor = torch.ones(size, device="rustdev")
    torch.rustdev.synchronize()
    return tensor


def read(tensor: torch.Tensor) -> list[float]:
    """Return a tensor's first and last number, once everything is done."""
    torch.rustdev.synchronize()
    return [tensor[0].item(), tensor[-1].item()]


@planted(3, 3)
def reads_what_another_stream_writes(waits: bool) -> list[float]:
    x = ones()
    with torch.rustdev.stream(SIDE):
        x.mul_(2)
    if waits:
        torch.rustdev.current_stream().wait_stream(SIDE)
    return read(x + 1)


@planted(2, 2)
def overwrites_what_another_stream_reads(waits: bool) -> list[float]:
    x = ones()
    with torch.rustdev.stream(SIDE):
        y = x + 1
    if waits:
        torch.rustdev.current_stream().wait_stream(SIDE)
    x.zero_()
    return read(y)


@planted(6, 6)
def starts_before_its_input_is_there(waits: bool) -> list[float]:
    x = ones()
    x.add_(4)
    if waits:
        SIDE.wait_stream(torch.rustdev.current_stream())
    with torch.rustdev.stream(SIDE):
        y = x + 1
    return read(y)


@planted(2, 2)
def reads_a_pinned_copy_too_early(waits: bool) -> list[float]:
    x = ones()
    host = torch.zeros(4).pin_memory()
    host.copy_(x * 2, non_blocking=True)
    if waits:
        torch.rustdev.current_stream().synchronize()
    return [host[0].item(), host[-1].item()]


@planted(1, 1)
def overwrites_a_pinned_source_too_early(waits: bool) -> list[float]:
    host = torch.ones(4).pin_memory()
    x = host.to("rustdev", non_blocking=True)
    if waits:
        torch.rustdev.current_stream().synchronize()
    host.zero_()
    return read(x)


@planted(2, 2)
def frees_what_another_stream_uses(waits: bool) -> list[float]:
    x = torch.ones(1000, device="rustdev")
    SIDE.wait_stream(torch.rustdev.current_stream())
    with torch.rustdev.stream(SIDE):
        y = x * 2
    if waits:
        x.record_stream(SIDE)
    del x
    torch.full((1000,), 9.0, device="rustdev")
    return read(y)


@planted(0, 15)
def reuses_one_of_two_buffers_too_early(waits: bool) -> list[float]:
    buffers = [ones(), ones()]
    consumed = [torch.rustdev.Event(), torch.rustdev.Event()]
    main, total = torch.rustdev.current_stream(), torch.zeros(2, device="rustdev")
    torch.rustdev.synchronize()
    for number in range(6):
        buffer = buffers[number % 2]
        with torch.rustdev.stream(SIDE):
            if waits:
                SIDE.wait_event(consumed[number % 2])
            buffer.fill_(number)
        main.wait_stream(SIDE)
        total[1:].add_(buffer[:1])
        consumed[number % 2].record(main)
    return read(total)


@planted(3, 3)
def writes_the_source_of_a_copy_between_devices(waits: bool) -> list[float]:
    x = ones()
    x.add_(2)
    y = torch.empty(4, device="rustdev:1")
    y.copy_(x)
    if waits:
        SIDE.wait_stream(torch.rustdev.current_stream())
    with torch.rustdev.stream(SIDE):
        x.zero_()
    torch.rustdev.synchronize(1)
    return read(y)
