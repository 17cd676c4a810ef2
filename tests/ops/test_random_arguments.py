"""Random arguments with the types of the schema: each operator computes or raises, and the device stays usable."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import rustdev
import torch

SHAPES = [(), (0,), (2,), (1,), (2, 2), (0, 3), (1, 2, 2), (1, 1, 4, 4), (2, 0, 3), (1, 1, 2, 2, 2)]
DTYPES = [*[torch.float32] * 6, *[torch.int64] * 3, torch.bool, torch.complex64, torch.bfloat16, torch.uint8]
#: Calls of each overload.
CALLS = 24
#: Tests that the overloads are divided between.
PARTS = 8
OVERLOADS = [name.removeprefix("aten::") for name, kind in rustdev.coverage().items() if (name[:6], kind) == ("aten::", "rust")]


class Generator:
    """Makes arguments for a call; most tensors of one have the same shape and dtype."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.shape, self.dtype = self.random.choice(SHAPES), self.random.choice(DTYPES)

    def happens(self, probability: float) -> bool:
        """Return true with that probability."""
        return self.random.random() < probability

    def tensor(self, name: str) -> torch.Tensor:
        """Return a tensor of zeros and ones for an argument."""
        shape = self.random.choice(SHAPES) if self.happens(0.3) else self.shape
        dtype = self.random.choice(DTYPES) if self.happens(0.2) else self.dtype
        if "mask" in name or "condition" in name:
            dtype = torch.bool
        elif "ind" in name or "target" in name or "offset" in name:
            dtype = torch.int64
        values = torch.Generator().manual_seed(self.random.randrange(1 << 30))
        return torch.randint(2, shape, generator=values).to(dtype).to("rustdev")

    def value(self, name: str, kind: str) -> Any:
        """Return a value for an argument of that type."""
        if name == "device":
            return "rustdev"
        if name in ("dtype", "out_dtype"):
            return self.random.choice([torch.float32, torch.float64, torch.int64])
        if name in ("layout", "memory_format", "pin_memory") or kind == "Generator":
            return None
        if kind.startswith("Optional["):
            return None if self.happens(0.5) else self.value(name, kind.removeprefix("Optional[")[:-1])
        if kind.startswith("List["):
            return [self.value(name, kind.removeprefix("List[")[:-1]) for _ in range(self.random.randrange(4))]
        if kind == "Tensor":
            return self.tensor(name)
        choices: dict[str, list[Any]] = {
            "int": [-2, -1, 0, 1, 2, 3],
            "float": [0.0, 0.5, 1.0, -1.0, float("nan"), float("inf")],
            "number": [0, 2, -1, 0.5, float("nan"), True],
            "bool": [False, True],
            "str": ["sum", "mean", "left", "none", ""],
        }
        return self.random.choice(choices[kind]) if kind in choices else None

    def arguments(self, schema: torch.FunctionSchema) -> tuple[list[Any], dict[str, Any]]:
        """Return arguments for a call, some of which are left out if they have defaults."""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for argument in schema.arguments:
            if argument.has_default_value() and self.happens(0.5):
                if not argument.kwarg_only:
                    positional.append(argument.default_value)
            elif argument.kwarg_only:
                named[argument.name] = self.value(argument.name, str(argument.type))
            else:
                positional.append(self.value(argument.name, str(argument.type)))
        return positional, named


def refusal(call: Callable[[], object]) -> str:
    """Return what the call raises, or nothing."""
    try:
        call()
    except Exception as error:
        return str(error)
    return ""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_arguments_of_any_kind_are_taken_or_refused(part: int) -> None:
    torch.rustdev.synchronize()
    before = torch.rustdev.memory_allocated()
    found = []
    for name in OVERLOADS[part::PARTS]:
        base, _, overload = name.partition(".")
        call = getattr(getattr(torch.ops.aten, base), overload or "default")
        for number in range(CALLS):
            positional, named = Generator(f"{name} {number}").arguments(call._schema)
            texts = [refusal(partial(call, *positional, **named))]
            # Each synchronization raises the failure of one task.
            while text := refusal(torch.rustdev.synchronize):
                texts.append(text)
            found += [f"{name}: {text}" for text in texts if "internal error" in text]
            del positional, named
    assert not found
    torch.rustdev.synchronize()
    assert torch.rustdev.memory_allocated() == before
    assert bool((torch.ones(3, device="rustdev") + 1 == 2).all())
