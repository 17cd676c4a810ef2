"""Sample calls of operators, derived from their schemas: the first small arguments for which an operator launches its kernel."""

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

#: Makes a tensor of a shape: of numbers, of a mask, or of positions in a dimension of two elements.
Maker = Callable[[str, tuple[int, ...]], torch.Tensor]
SHAPES = [(2,), (2, 2), (1, 2, 2), (1, 1, 2, 2), (1, 1, 4, 4), (1, 1, 2, 2, 2), (2, 3), ()]
#: What arguments of type int are: dimensions, counts, sizes.
NUMBERS = (0, 1, 2)


def overloads(name: str) -> Iterator[Any]:
    """Yield the overloads of an operator, or the named one, that do not write to an argument given for it."""
    base, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, base, None)
    for own in [overload] if overload else packet.overloads() if packet else []:
        found = getattr(packet, own)
        if not any(argument.kwarg_only and argument.is_out for argument in found._schema.arguments):
            yield found


def value(argument: torch.Argument, shape: tuple[int, ...], number: int, make: Maker) -> Any:
    """Return a value for a required argument.

    Raises:
        TypeError: Its type is not known.
    """
    kind, name = str(argument.type), argument.name
    if kind in ("Tensor", "List[Tensor]"):
        what = "positions" if "ind" in name else "mask" if "mask" in name else "numbers"
        made = make(what, shape)
        return made if kind == "Tensor" else [made]
    if kind.startswith("Optional["):
        return None
    values: dict[str, Any] = {"int": number, "List[int]": [1] * max(1, len(shape) - 2), "float": 0.5, "number": 0.5, "bool": False}
    if kind not in values:
        message = f"no sample of {kind}"
        raise TypeError(message)
    return [1] if (kind, name) == ("List[int]", "dim") else values[kind]


@dataclass(frozen=True)
class Sample:
    """A call of an overload."""

    overload: Any
    shape: tuple[int, ...]
    number: int

    def call(self, make: Maker) -> object:
        """Call it with values for its required arguments."""
        required = [argument for argument in self.overload._schema.arguments if not argument.has_default_value()]
        values = {argument.name: value(argument, self.shape, self.number, make) for argument in required}
        named = {argument.name: values.pop(argument.name) for argument in required if argument.kwarg_only}
        return self.overload(*values.values(), **named)

    def launches(self, name: str) -> bool:
        """Return whether it launches the kernel of a name."""
        before = torch.rustdev.op_calls()[name]
        try:
            self.call(usual)
            torch.rustdev.synchronize()
        except (RuntimeError, TypeError, ValueError, IndexError):
            return False
        return torch.rustdev.op_calls()[name] > before


def usual(what: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Return a tensor on the device."""
    kinds = {"numbers": torch.float32, "mask": torch.bool, "positions": torch.int64}
    return torch.ones(shape, dtype=kinds[what], device="rustdev")


@functools.cache
def sample_of(name: str) -> Sample | None:
    """Return a call that launches the kernel of a name; nothing where none does."""
    samples = itertools.starmap(Sample, itertools.product(overloads(name), SHAPES, NUMBERS))
    return next((sample for sample in samples if sample.launches(name)), None)
