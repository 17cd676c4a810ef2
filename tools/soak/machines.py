"""Machines that run the steps of a program: the CPU, and two devices with four streams each."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

import rustdev
import torch
from rustdev.streams import _sleep

from .operators import OPERATORS, make

#: Number of devices, and of streams per device.
DEVICES, STREAMS = 2, 4


@dataclass(frozen=True)
class Step:
    """One step of a program. Its number, the index in the program, identifies its result."""

    number: int
    operator: str  # a name in OPERATORS, or "make", "move" or "drop"
    operands: tuple[int, ...] = ()  # numbers of the steps whose results it takes; what an operator writes to is the first
    choice: int = 0  # determines the other arguments of the operator
    device: int = 0
    stream: int = 0
    wait: str = "event"  # how it waits for work on other streams: "event", "stream" or "host"
    pause: int = 0  # nanoseconds for which the stream is kept busy before the step
    shape: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float32

    def __str__(self) -> str:
        made = f"{list(self.shape)} of {str(self.dtype)[6:]}"
        what = made if self.operator == "make" else ", ".join(f"%{it}" for it in self.operands)
        where = f"rustdev:{self.device}, stream {self.stream}, waits by {self.wait}"
        return f"%{self.number} = {self.operator}({what}; {self.choice})  # {where}" + f", pause {self.pause} ns" * bool(self.pause)

    def writes(self) -> bool:
        """Whether the step writes to its first operand."""
        return self.kind() == "write"

    def kind(self) -> str:
        """Return the kind of its operator."""
        return OPERATORS[self.operator].kind if self.operator in OPERATORS else "new"

    def call(self, given: list[torch.Tensor]) -> torch.Tensor:
        """Return the result of its operator, one of ``OPERATORS``."""
        return OPERATORS[self.operator].call(given, self.choice)


class Host:
    """Runs steps on the CPU."""

    def __init__(self) -> None:
        self.values: dict[int, torch.Tensor] = {}

    def run(self, step: Step) -> None:
        """Run one step."""
        given = [self.values[number] for number in step.operands]
        if step.operator == "drop":
            del self.values[step.operands[0]]
        elif step.operator == "make":
            self.values[step.number] = make(step.shape, step.dtype, step.choice)
        else:
            self.values[step.number] = given[0].clone() if step.operator == "move" else step.call(given)


@dataclass
class Memory:
    """The last events of streams that use a piece of memory, by (device, stream)."""

    writers: dict[tuple[int, int], torch.Event] = field(default_factory=dict)
    readers: dict[tuple[int, int], torch.Event] = field(default_factory=dict)


class Devices:
    """Runs each step on its device and stream. The stream waits only for the work that the step depends on.

    A step that runs out of memory is tried as often as ``tries`` says; it must not have written anything.
    """

    def __init__(self, tries: int = 1) -> None:
        self.tries, self.shortages = tries, 0
        self.values: dict[int, torch.Tensor] = {}
        self.memory: dict[int, Memory] = {}
        self.streams = [[rustdev.Stream(device) for _ in range(STREAMS)] for device in range(DEVICES)]

    def run(self, step: Step) -> None:
        """Run one step."""
        if step.operator == "drop":
            del self.values[step.operands[0]], self.memory[step.operands[0]]
            return
        given = [self.values[number] for number in step.operands]
        used = {(it.device.index, step.stream) for it in given} | {(step.device, step.stream)}
        self.wait(step, used)
        with contextlib.ExitStack() as entered:
            for device, stream in sorted(used, key=lambda it: it[0] == step.device):
                entered.enter_context(rustdev.stream(self.streams[device][stream]))
                if step.pause:
                    _sleep(step.pause)
            result = self.insist(lambda: self.call(step, given))
        self.values[step.number] = result
        self.note(step, given, used)

    def insist(self, call: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Return the result of a call, retried if it runs out of memory."""
        for _ in range(self.tries - 1):
            try:
                return call()
            except torch.OutOfMemoryError:  # noqa: PERF203 - once in many steps
                self.shortages += 1
        return call()

    def call(self, step: Step, given: list[torch.Tensor]) -> torch.Tensor:
        """Return the result of a step. The current streams are those of the step."""
        device = f"rustdev:{step.device}"
        if step.operator == "make":
            value = make(step.shape, step.dtype, step.choice)
            return value.pin_memory().to(device, non_blocking=True) if step.choice % 2 else value.to(device)
        if step.operator == "move":
            return given[0].to(device, non_blocking=True, copy=True)
        return step.call(given)

    def wait(self, step: Step, used: set[tuple[int, int]]) -> None:
        """Make the streams of a step wait for all work that it depends on."""
        before: dict[tuple[int, int], list[torch.Event]] = {}
        for place, number in enumerate(step.operands):
            memory = self.memory[number]
            behind = [memory.writers, memory.readers] if place == 0 and step.writes() else [memory.writers]
            for owner, event in ((owner, event) for events in behind for owner, event in events.items()):
                before.setdefault(owner, []).append(event)
        for owner, events in before.items():
            for device, stream in used - {owner}:
                mine, other = self.streams[device][stream], self.streams[owner[0]][owner[1]]
                if step.wait == "stream":
                    mine.wait_stream(other)
                for event in events:
                    if step.wait == "event":
                        mine.wait_event(event)
                    elif step.wait == "host":
                        event.synchronize()

    def note(self, step: Step, given: list[torch.Tensor], used: set[tuple[int, int]]) -> None:
        """Record which streams use the memory of a step."""
        done = {owner: self.streams[owner[0]][owner[1]].record_event() for owner in used}
        for tensor in given:
            for device, stream in used:
                if tensor.device.index == device:
                    tensor.record_stream(self.streams[device][stream])
        for place, number in enumerate(step.operands):
            if place == 0 and step.writes():
                self.memory[number].writers, self.memory[number].readers = dict(done), {}
            else:
                self.memory[number].readers.update(done)
        is_view = step.kind() in ("view", "write")
        self.memory[step.number] = self.memory[step.operands[0]] if is_view else Memory(writers=done)

    def read(self, number: int, stream: int) -> torch.Tensor:
        """Copy a value to the CPU, on one of the streams."""
        value = self.values[number]
        device = value.device.index
        step = Step(-1, "read", (number,), device=device, stream=stream)
        self.wait(step, {(device, stream)})
        with rustdev.stream(self.streams[device][stream]):
            return self.insist(value.cpu)

    def end(self) -> None:
        """Free the values, and wait for all work."""
        self.values.clear()
        self.memory.clear()
        settle()


def settle() -> None:
    """Wait for the devices. Failures of tasks are raised."""
    for device in range(DEVICES):
        rustdev.synchronize(device)
