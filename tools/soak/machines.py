"""What runs the steps of a program: the CPU, and two devices with four streams each."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

import rustdev
import torch
from rustdev.streams import _sleep

from .operators import OPERATORS, make

#: Devices, and streams of each.
DEVICES, STREAMS = 2, 4


@dataclass(frozen=True)
class Step:
    """One step of a program; its number names its result.

    Attributes:
        number: Its place in the program.
        operator: A name of ``OPERATORS``, or "make", "move" or "drop".
        operands: The numbers of the steps whose results it takes. It writes to the first, if its operator does.
        choice: Chooses the operator's other arguments.
        device: Where the result is.
        stream: Which of the streams it runs on.
        wait: How it waits for what other streams hold: "event", "stream" or "host".
        pause: Nanoseconds for which the stream is kept busy before it.
        shape: Of what is made.
        dtype: Of what is made.
    """

    number: int
    operator: str
    operands: tuple[int, ...] = ()
    choice: int = 0
    device: int = 0
    stream: int = 0
    wait: str = "event"
    pause: int = 0
    shape: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float32

    def __str__(self) -> str:
        what = (
            f"{list(self.shape)} of {str(self.dtype)[6:]}"
            if self.operator == "make"
            else ", ".join(f"%{it}" for it in self.operands)
        )
        where = f"rustdev:{self.device}, stream {self.stream}, waits by {self.wait}"
        return f"%{self.number} = {self.operator}({what}; {self.choice})  # {where}" + f", pause {self.pause} ns" * bool(self.pause)

    def writes(self) -> bool:
        """Whether it writes to its first operand."""
        return self.operator in OPERATORS and OPERATORS[self.operator].kind == "write"


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
        elif step.operator == "move":
            self.values[step.number] = given[0].clone()
        else:
            self.values[step.number] = OPERATORS[step.operator].call(given, step.choice)


@dataclass
class Memory:
    """Who works on some memory: each stream's last event there, by the stream's device and number."""

    writers: dict[tuple[int, int], torch.Event] = field(default_factory=dict)
    readers: dict[tuple[int, int], torch.Event] = field(default_factory=dict)


class Devices:
    """Runs steps on the devices, each on its stream, which waits for no more than it must.

    Args:
        tries: how often a step is tried that runs out of memory. It must not have written anything then.

    Attributes:
        shortages: How often one has.
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
        """Return a call's result, after some tries where memory runs out."""
        for _ in range(self.tries - 1):
            try:
                return call()
            except torch.OutOfMemoryError:  # noqa: PERF203 - once in many steps
                self.shortages += 1
        return call()

    def call(self, step: Step, given: list[torch.Tensor]) -> torch.Tensor:
        """Return a step's result; the current streams are the step's."""
        device = f"rustdev:{step.device}"
        if step.operator == "make":
            value = make(step.shape, step.dtype, step.choice)
            return value.pin_memory().to(device, non_blocking=True) if step.choice % 2 else value.to(device)
        if step.operator == "move":
            return given[0].to(device, non_blocking=True, copy=True)
        return OPERATORS[step.operator].call(given, step.choice)

    def wait(self, step: Step, used: set[tuple[int, int]]) -> None:
        """Make a step's streams wait for all that it must come behind."""
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
        """Write down which streams a step's memory is in use by."""
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
        is_view = step.operator in OPERATORS and OPERATORS[step.operator].kind in ("view", "write")
        self.memory[step.number] = self.memory[step.operands[0]] if is_view else Memory(writers=done)

    def read(self, number: int, stream: int) -> torch.Tensor:
        """Return a copy of a value on the CPU, by way of one of the streams."""
        value = self.values[number]
        device = value.device.index
        step = Step(-1, "read", (number,), device=device, stream=stream)
        self.wait(step, {(device, stream)})
        with rustdev.stream(self.streams[device][stream]):
            return self.insist(value.cpu)

    def end(self) -> None:
        """Free the values, and wait for everything."""
        self.values.clear()
        self.memory.clear()
        settle()


def settle() -> None:
    """Wait for the devices; what failed on them is raised."""
    for device in range(DEVICES):
        rustdev.synchronize(device)
