"""Random programs: generation, comparison and shrinking."""

import contextlib
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .machines import STREAMS, Devices, Host, Step
from .operators import DTYPES, OPERATORS, Operator

#: Number of steps of a program, and of steps between two comparisons of a value.
STEPS, BETWEEN = 200, 10
#: Number of live values.
LIVE = 24
SIZES = (1, 1, 3, 4, 4, 17, 64, 300)
#: Maximum number of elements of a made tensor.
LARGEST = 200_000
#: Number of runs after which a smaller program counts as one without the difference.
TRIES = 3
TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 2e-3, torch.float32: 1e-5, torch.float64: 1e-7}


@dataclass(frozen=True)
class Difference:
    """A value that differs from the CPU's, or an exception (a finding), with the step after which it was found."""

    step: Step
    value: int
    text: str
    is_finding: bool = False


@dataclass
class Outcome:
    """Result of a program: the steps that ran, the first difference, and how often it ran out of memory."""

    steps: list[Step]
    difference: Difference | None = None
    shortages: int = 0


class Maker:
    """Generates the steps of a program and runs them on the CPU."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.host = Host()
        self.where: dict[int, int] = {}
        self.memory: dict[int, int] = {}
        self.exact: list[int] = []

    def steps(self) -> Iterator[Step]:
        """Yield the steps of a program, each after it has run on the CPU."""
        for number in range(STEPS):
            step = self.step(number)
            self.host.run(step)
            if step.operator == "drop":
                self.exact = [it for it in self.exact if it != step.operands[0]]
            else:
                self.enter(step)
            yield step

    def enter(self, step: Step) -> None:
        """Register the result of a step."""
        kind = step.kind()
        self.where[step.number] = step.device
        self.memory[step.number] = self.memory[step.operands[0]] if kind in ("view", "write") else step.number
        if kind != "leaf" and self.host.values[step.number].numel() > 0:
            self.exact.append(step.number)

    def step(self, number: int) -> Step:
        """Return the next step."""
        draw = self.random
        how: dict[str, Any] = {
            "choice": draw.randrange(1 << 20),
            "stream": draw.randrange(STREAMS),
            "wait": draw.choices(("event", "stream", "host"), (6, 3, 1))[0],
            "pause": draw.choice((0, 0, 0, 0, 20_000, 200_000)),
        }
        if len(self.exact) > LIVE:
            return Step(number, "drop", (draw.choice(self.exact),), **how)
        if len(self.exact) < 4 or draw.random() < 0.1:
            return self.make(number, how)
        if draw.random() < 0.08:
            chosen = draw.choice(self.exact)
            return Step(number, "move", (chosen,), device=1 - self.where[chosen], **how)
        while True:
            name = draw.choice(tuple(OPERATORS))
            operands = self.operands(OPERATORS[name])
            if operands is not None:
                return Step(number, name, operands, device=self.where[operands[0]], **how)

    def make(self, number: int, how: dict[str, Any]) -> Step:
        """Return a step that makes a tensor."""
        shape = tuple(self.random.choice(SIZES) for _ in range(self.random.randrange(4)))
        while torch.Size(shape).numel() > LARGEST:
            shape = shape[1:]
        return Step(number, "make", device=self.random.randrange(2), shape=shape, dtype=self.random.choice(DTYPES), **how)

    def operands(self, operator: Operator) -> tuple[int, ...] | None:
        """Return random values that an operator accepts; None if a few attempts find none."""
        first = self.random.choice(self.exact)
        there = [it for it in self.exact if self.where[it] == self.where[first]]
        for _ in range(8):
            chosen = (first, *(self.random.choice(there) for _ in range(operator.operands - 1)))
            given = [self.host.values[it] for it in chosen]
            if operator.kind == "write" and not self.may_write(chosen):
                continue
            if operator.takes(given):
                return chosen
        return None

    def may_write(self, chosen: tuple[int, ...]) -> bool:
        """Whether the first value has no overlapping elements and shares no memory with the others."""
        first = self.host.values[chosen[0]]
        if any(self.memory[it] == self.memory[chosen[0]] for it in chosen[1:]):
            return False
        positions = torch.zeros(first.shape, dtype=torch.int64)
        for dim, (size, stride) in enumerate(zip(first.shape, first.stride(), strict=True)):
            positions += (torch.arange(size) * stride).view(-1, *[1] * (first.dim() - dim - 1))
        return bool(positions.unique().numel() == first.numel())


def compare(host: Host, devices: Devices, number: int, stream: int, exact: bool) -> str:
    """Return how a value differs from the CPU's, or an empty string."""
    expected, actual = host.values[number], devices.read(number, stream)
    mine = devices.values[number]
    moving = [dim for dim, size in enumerate(expected.shape) if size > 1]
    if mine.shape == expected.shape and [mine.stride(dim) for dim in moving] != [expected.stride(dim) for dim in moving]:
        return f"sizes {list(mine.shape)} have strides {mine.stride()}, and the CPU's {expected.stride()}"
    rtol = 0.0 if exact else TOLERANCE.get(expected.dtype, 0.0)
    try:
        torch.testing.assert_close(actual, expected, rtol=rtol, atol=rtol, equal_nan=True)
    except AssertionError as difference:
        return " ".join(str(difference).split())
    return ""


def check(done: list[Step], number: int, host: Host, devices: Devices) -> Difference | None:
    """Compare a value after the last step that has run."""
    maker = next(it for it in done if it.number == number)
    text = compare(host, devices, number, done[-1].stream, maker.kind() != "leaf")
    return Difference(done[-1], number, text) if text else None


def follow(steps: Iterable[Step], done: list[Step], host: Host, devices: Devices, is_fresh: bool) -> Difference | None:
    """Run steps on the devices, compare values at intervals and all at the end, and return the first difference."""
    for step in steps:
        done.append(step)
        if is_fresh:
            host.run(step)
        devices.run(step)
        if step.number % BETWEEN == BETWEEN - 1 and step.number in devices.values:
            found = check(done, step.number, host, devices)
            if found:
                return found
    return next(filter(None, (check(done, number, host, devices) for number in devices.values)), None)


def run(
    steps: Iterable[Step], host: Host, *, is_fresh: bool, tries: int, around: contextlib.AbstractContextManager[object]
) -> Outcome:
    """Run a program in a context on the devices, and compare its values with the CPU's; fresh steps have not run there yet."""
    outcome, devices = Outcome([]), Devices(tries)
    try:
        with around:
            outcome.difference = follow(steps, outcome.steps, host, devices, is_fresh)
            devices.end()
    except Exception as error:
        step = outcome.steps[-1]
        outcome.difference = Difference(step, step.number, f"{type(error).__name__}: {error}", is_finding=True)
    outcome.shortages = devices.shortages
    return outcome


def smaller(steps: list[Step], shows: Callable[[list[Step]], bool], seconds: float) -> list[Step]:
    """Shrink a program: return a small subset of its steps that still shows the difference, found within ``seconds``."""
    end = time.monotonic() + seconds
    for chosen in sorted((it.number for it in steps), reverse=True):
        gone = {chosen}
        for step in steps:
            if gone.intersection(step.operands):
                gone.add(step.number)
        fewer = [step for step in steps if step.number not in gone]
        if time.monotonic() < end and fewer and any(shows(fewer) for _ in range(TRIES)):
            steps = fewer
    return steps
