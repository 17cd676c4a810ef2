"""Random programs: how they are made, compared, and made smaller."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .machines import STREAMS, Devices, Host, Step
from .operators import DTYPES, OPERATORS, Operator

#: Steps of a program, and how many of them lie between two comparisons of a value.
STEPS, BETWEEN = 200, 10
#: So many values live at a time.
LIVE = 24
SIZES = (1, 1, 3, 4, 4, 17, 64, 300)
#: The largest value that is made, in elements.
LARGEST = 200_000
#: How often a smaller program runs before it counts as one without the difference.
TRIES = 3
TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 2e-3, torch.float32: 1e-5, torch.float64: 1e-7}


@dataclass(frozen=True)
class Difference:
    """A value that is not the CPU's, or an exception: behind which step, of which value, and what."""

    step: Step
    value: int
    text: str


class Maker:
    """Makes the steps of a program, from its values on the CPU."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.host = Host()
        self.where: dict[int, int] = {}
        self.memory: dict[int, int] = {}
        self.exact: list[int] = []

    def steps(self) -> Iterator[Step]:
        """Yield a program's steps; each has run on the CPU."""
        for number in range(STEPS):
            step = self.step(number)
            self.host.run(step)
            if step.operator == "drop":
                self.exact = [it for it in self.exact if it != step.operands[0]]
            else:
                self.enter(step)
            yield step

    def enter(self, step: Step) -> None:
        """Take up a step's result."""
        kind = OPERATORS[step.operator].kind if step.operator in OPERATORS else "new"
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
        """Return values that an operator takes, or nothing where a few draws find none."""
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
        """Whether the first of some values has elements apart, and memory that none of the others has."""
        first = self.host.values[chosen[0]]
        if any(self.memory[it] == self.memory[chosen[0]] for it in chosen[1:]):
            return False
        positions = torch.zeros(first.shape, dtype=torch.int64)
        for dim, (size, stride) in enumerate(zip(first.shape, first.stride(), strict=True)):
            positions += (torch.arange(size) * stride).view(-1, *[1] * (first.dim() - dim - 1))
        return bool(positions.unique().numel() == first.numel())


def compare(host: Host, devices: Devices, number: int, stream: int, exact: bool) -> str:
    """Return how a value differs from the CPU's, or nothing."""
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


def run(steps: Iterator[Step] | list[Step], host: Host, *, is_fresh: bool) -> tuple[list[Step], Difference | None]:
    """Run a program on the devices, and compare its values now and then, and all at its end.

    Args:
        steps: the program.
        host: the CPU's values.
        is_fresh: whether the steps have yet to run there.

    Returns:
        The steps that ran, and the first difference.
    """
    devices = Devices()
    done: list[Step] = []

    def check(step: Step, number: int) -> Difference | None:
        maker = next(it for it in done if it.number == number)
        exact = maker.operator not in OPERATORS or OPERATORS[maker.operator].kind != "leaf"
        text = compare(host, devices, number, step.stream, exact)
        return Difference(step, number, text) if text else None

    for step in steps:
        done.append(step)
        if is_fresh:
            host.run(step)
        try:
            devices.run(step)
            if step.number % BETWEEN == BETWEEN - 1 and step.number in devices.values:
                found = check(step, step.number)
                if found:
                    return done, found
        except Exception as error:
            return done, Difference(step, step.number, f"{type(error).__name__}: {error}")
    for number in devices.values:
        found = check(done[-1], number)
        if found:
            return done, found
    return done, None


def smaller(steps: list[Step]) -> list[Step]:
    """Return as few of a program's steps as still show a difference."""
    for chosen in sorted((it.number for it in steps), reverse=True):
        gone = {chosen}
        for step in steps:
            if gone.intersection(step.operands):
                gone.add(step.number)
        fewer = [step for step in steps if step.number not in gone]
        if fewer and any(run(fewer, Host(), is_fresh=True)[1] for _ in range(TRIES)):
            steps = fewer
    return steps
