"""Factories against the CPU: one operator each, with the dtype, layout and device that PyTorch specifies."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from comparison import CPU, compare, compare_errors

Call = Callable[[torch.device], torch.Tensor]
NEW: dict[str, Call] = {
    "zeros": lambda device: torch.zeros(2, 3, device=device),
    "ones": lambda device: torch.ones(2, 3, device=device),
    "full": lambda device: torch.full((2, 3), 1.5, device=device),
    "arange": lambda device: torch.arange(5, device=device),
    "linspace": lambda device: torch.linspace(0, 1, 5, device=device),
    "rand": lambda device: torch.rand(2, 3, device=device),
    "randn": lambda device: torch.randn(2, 3, device=device),
    "randint": lambda device: torch.randint(9, (2, 3), device=device),
    "randperm": lambda device: torch.randperm(5, device=device),
}
LIKE: dict[str, Callable[..., torch.Tensor]] = {
    "empty_like": torch.empty_like,
    "zeros_like": torch.zeros_like,
    "ones_like": torch.ones_like,
    "full_like": lambda like, **options: torch.full_like(like, 1.5, **options),
    "rand_like": torch.rand_like,
    "randn_like": torch.randn_like,
    "randint_like": lambda like, **options: torch.randint_like(like, 9, **options),
}
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda tensor: tensor,
    "transposed": lambda tensor: tensor.mT,
    "channels last": lambda tensor: tensor.contiguous(memory_format=torch.channels_last),
    "sliced": lambda tensor: tensor[..., ::2],
    "expanded": lambda tensor: tensor[:, :1].expand(-1, 3, -1, -1),
    "contiguous, with strides of its own where the size is 1": lambda tensor: tensor[:1, :1],
    "empty": lambda tensor: tensor[:0],
    "empty, with strides of its own": lambda tensor: tensor[:, :0],
    "of no dimensions": lambda tensor: tensor.sum(),
}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"dtype": torch.float16, "memory_format": torch.contiguous_format},
    {"memory_format": torch.channels_last},
    {"requires_grad": True},
]


def operators(call: Callable[[], Any]) -> list[str]:
    """Return the operators that a call runs, and what these call."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    return [event.name for event in profile.events() if event.name.startswith("aten::")]


@pytest.mark.parametrize("name", ["zeros", "ones", "full", "empty_like", "zeros_like", "ones_like", "full_like"])
def test_a_factory_is_one_operator(name: str) -> None:
    like = torch.zeros(2, 3, device="rustdev")
    assert operators(lambda: LIKE[name](like) if name in LIKE else NEW[name](like.device)) == [f"aten::{name}"]


@pytest.mark.parametrize("name", NEW)
def test_a_device_without_an_index_is_the_current_one(name: str) -> None:
    assert NEW[name](torch.device("rustdev:1")).device.index == 1
    with torch.rustdev.device(1):
        assert NEW[name](torch.device("rustdev")).device.index == 1


def test_index_put_is_one_operator_but_for_views() -> None:
    target, index, values = torch.zeros(4, device="rustdev"), torch.tensor([1, 3]).to("rustdev"), torch.ones(2, device="rustdev")
    names = operators(lambda: target.index_put_((index,), values))
    assert set(names) <= {"aten::index_put_", "aten::expand", "aten::as_strided"}
    assert target.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", LIKE)
def test_layouts_and_options_of_a_factory_like_a_tensor(name: str, layout: str) -> None:
    def make(like: torch.Tensor, options: dict[str, Any]) -> tuple[Any, ...]:
        made = LIKE[name](LAYOUTS[layout](like), **options)
        # Memory that nothing was written to, and random numbers, are not compared.
        values = made.detach() if name in ("zeros_like", "ones_like", "full_like") else torch.zeros_like(made).detach()
        return made.stride(), made.requires_grad, values

    for options in OPTIONS:
        if options.get("memory_format") is not torch.channels_last or LAYOUTS[layout](torch.zeros(2, 3, 4, 6)).dim() == 4:
            compare(make, torch.zeros(2, 3, 4, 6), options)
    assert LIKE[name](torch.zeros(2, device="rustdev:1")).device.index == 1
    assert LIKE[name](torch.zeros(2, device="rustdev"), device="cpu").device.type == "cpu"


VALUES: list[Call] = [
    lambda device: torch.arange(100_000, 100_010, device=device),
    lambda device: torch.arange(2**62, 2**62 + 9, 3, device=device),
    lambda device: torch.arange(0, 5, 0.3, device=device, dtype=torch.int64),
    lambda device: torch.linspace(3.5, 9, 1, device=device),
    lambda device: torch.linspace(0, 9, 4, device=device, dtype=torch.int32),
    lambda device: torch.linspace(0.5, 9, 1, device=device, dtype=torch.int64),
    lambda device: torch.linspace(1.5, 9, 1, device=device, dtype=torch.float8_e4m3fn).float(),
    lambda device: torch.linspace(1, 9, 1, out=torch.empty(1, device=device, dtype=torch.float8_e5m2)).float(),
    lambda device: torch.eye(2, device=device, dtype=torch.float8_e8m0fnu).view(torch.uint8),
    lambda device: torch.eye(300, 200, out=torch.ones(200, 300, device=device, dtype=torch.float64).t()),
    lambda device: torch.eye(3, out=torch.ones(2, device=device, dtype=torch.bfloat16)),
    lambda device: torch.full((2,), 1j, device=device),
    lambda device: torch.randint(4, 5, (3,), device=device, dtype=torch.bfloat16),
    lambda device: torch.randint(-3, -2, (3,), device=device, dtype=torch.int8),
    lambda device: torch.randint(0, 1, (3,), device=device, dtype=torch.bool),
    lambda device: torch.empty(2, 3, 4, 5, device=device, memory_format=torch.channels_last).zero_(),
    *(lambda device, kind=kind: torch.arange(40, -3, -7, dtype=kind, device=device) for kind in (torch.int16, torch.bfloat16)),
    *(
        lambda device, kind=kind: torch.logspace(0, 4, 5, base=2, dtype=kind, device=device)
        for kind in (torch.int64, torch.bfloat16)
    ),
]
REFUSED: list[Call] = [
    lambda device: torch.eye(-1, out=torch.ones(2, device=device)),
    lambda device: torch.zeros(-1, device=device),
    lambda device: torch.full((1,), 300, dtype=torch.uint8, device=device),
    lambda device: torch.full_like(torch.zeros(1, device=device, dtype=torch.int8), 300),
    lambda device: torch.randint(3, 3, (1,), device=device),
    lambda device: torch.randint(300, (1,), device=device, dtype=torch.uint8),
    lambda device: torch.rand(3, device=device, dtype=torch.int64),
    lambda device: torch.zeros_like(torch.zeros(2, 3, device=device), memory_format=torch.channels_last),
]


@pytest.mark.parametrize("call", VALUES)
def test_values(call: Call) -> None:
    compare(call, CPU, rtol=1e-6)


@pytest.mark.parametrize("call", REFUSED)
def test_errors_are_the_cpus(call: Call) -> None:
    compare_errors(call, CPU, text=False)
    assert torch.ones(2, device="rustdev").sum().item() == 2
