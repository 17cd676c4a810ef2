"""Factories against the CPU: one operator each, with the dtype, layout and device that PyTorch specifies."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.usefixtures("strict")

CALLS: dict[str, Callable[[torch.device], torch.Tensor]] = {
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
LIKE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "empty_like": torch.empty_like,
    "zeros_like": torch.zeros_like,
    "ones_like": torch.ones_like,
    "full_like": lambda like: torch.full_like(like, 1.5),
    "rand_like": torch.rand_like,
    "randn_like": torch.randn_like,
    "randint_like": lambda like: torch.randint_like(like, 9),
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


def operators(call: Callable[[], Any]) -> list[str]:
    """Return the operators that a call runs, and what these call."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    return [event.name for event in profile.events() if event.name.startswith("aten::")]


@pytest.mark.parametrize("name", CALLS)
def test_a_factory_is_one_operator(name: str) -> None:
    device = torch.device("rustdev")
    assert operators(lambda: CALLS[name](device)) == [f"aten::{name}"]


@pytest.mark.parametrize("name", LIKE)
def test_a_factory_like_a_tensor_is_one_operator(name: str) -> None:
    like = torch.zeros(2, 3, device="rustdev")
    assert operators(lambda: LIKE[name](like)) == [f"aten::{name}"]


def test_index_put_is_one_operator_but_for_views() -> None:
    target, index, values = torch.zeros(4, device="rustdev"), torch.tensor([1, 3]).to("rustdev"), torch.ones(2, device="rustdev")
    names = operators(lambda: target.index_put_((index,), values))
    assert set(names) <= {"aten::index_put_", "aten::expand", "aten::as_strided"}
    assert target.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", LIKE)
def test_layouts_and_dtypes_are_those_of_the_cpu(name: str, layout: str) -> None:
    host = LAYOUTS[layout](torch.zeros(2, 3, 4, 6))
    ours = LAYOUTS[layout](torch.zeros(2, 3, 4, 6, device="rustdev"))
    expected, actual = LIKE[name](host), LIKE[name](ours)
    assert actual.device == ours.device
    assert (actual.shape, actual.stride(), actual.dtype) == (expected.shape, expected.stride(), expected.dtype)
    if name in {"zeros_like", "ones_like", "full_like"}:
        assert torch.equal(actual.cpu(), expected)


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": torch.int16, "memory_format": torch.contiguous_format},
        {"memory_format": torch.channels_last},
        {"device": "cpu"},
        {"requires_grad": True},
    ],
)
def test_options_of_a_factory_like_a_tensor(options: dict[str, Any]) -> None:
    host = torch.zeros(2, 3, 4, 6).mT
    for factory in (torch.empty_like, torch.zeros_like, torch.ones_like):
        expected, actual = factory(host, **options), factory(host.to("rustdev"), **options)
        assert actual.device.type == options.get("device", "rustdev")
        assert (actual.stride(), actual.dtype, actual.requires_grad) == (expected.stride(), expected.dtype, expected.requires_grad)


@pytest.mark.parametrize(
    "call",
    [
        lambda device: torch.arange(2.5, device=device),
        lambda device: torch.arange(7, 1, -2, device=device),
        lambda device: torch.arange(0.5, 3, 0.25, device=device, dtype=torch.bfloat16),
        lambda device: torch.arange(3, device=device, dtype=torch.float16),
        lambda device: torch.arange(100_000, 100_010, device=device),
        lambda device: torch.arange(2**62, 2**62 + 9, 3, device=device),
        lambda device: torch.arange(0, 5, 0.3, device=device, dtype=torch.int64),
        lambda device: torch.arange(1, 1, device=device),
        lambda device: torch.linspace(3, -3, 7, device=device),
        lambda device: torch.linspace(3.5, 9, 1, device=device),
        lambda device: torch.linspace(0, 9, 0, device=device),
        lambda device: torch.linspace(0, 9, 4, device=device, dtype=torch.int32),
        lambda device: torch.linspace(0.5, 9, 1, device=device, dtype=torch.int64),
        lambda device: torch.linspace(1.5, 9, 1, device=device, dtype=torch.float8_e4m3fn).float(),
        lambda device: torch.linspace(1, 9, 1, out=torch.empty(1, device=device, dtype=torch.float8_e5m2)).float(),
        lambda device: torch.linspace(0, 1 + 1j, 5, device=device),
        lambda device: torch.eye(3, device=device),
        lambda device: torch.eye(2, 4, device=device, dtype=torch.int16),
        lambda device: torch.eye(4, 2, device=device, dtype=torch.complex64),
        lambda device: torch.eye(0, 2, device=device, dtype=torch.bool),
        lambda device: torch.eye(2, device=device, dtype=torch.float8_e8m0fnu).view(torch.uint8),
        lambda device: torch.eye(300, 200, out=torch.ones(200, 300, device=device, dtype=torch.float64).t()),
        lambda device: torch.eye(3, out=torch.ones(2, device=device, dtype=torch.bfloat16)),
        lambda device: torch.full((), 3, device=device),
        lambda device: torch.full((2,), fill_value=True, device=device),
        lambda device: torch.full((2,), 1j, device=device),
        lambda device: torch.full((2,), 3, device=device, dtype=torch.uint8),
        lambda device: torch.zeros(0, 3, device=device),
        lambda device: torch.ones(2, device=device, dtype=torch.complex64),
        lambda device: torch.randperm(1, device=device),
        lambda device: torch.randint(4, 5, (3,), device=device, dtype=torch.bfloat16),
        lambda device: torch.randint(-3, -2, (3,), device=device, dtype=torch.int8),
        lambda device: torch.randint(0, 1, (3,), device=device, dtype=torch.bool),
    ],
)
def test_values(call: Callable[[str], torch.Tensor]) -> None:
    expected, actual = call("cpu"), call("rustdev")
    assert actual.device == torch.device("rustdev", 0)
    assert actual.dtype == expected.dtype
    torch.testing.assert_close(actual.cpu(), expected)


@pytest.mark.parametrize(
    "call",
    [
        lambda device: torch.arange(3, 1, device=device),
        lambda device: torch.arange(0, 1, 0, device=device),
        lambda device: torch.arange(float("inf"), device=device),
        lambda device: torch.linspace(0, 1, -1, device=device),
        lambda device: torch.eye(-1, device=device),
        lambda device: torch.eye(2, -1, device=device),
        lambda device: torch.eye(-1, out=torch.ones(2, device=device)),
        lambda device: torch.zeros(-1, device=device),
        lambda device: torch.full((1,), 300, dtype=torch.uint8, device=device),
        lambda device: torch.full_like(torch.zeros(1, device=device, dtype=torch.int8), 300),
        lambda device: torch.randint(3, 3, (1,), device=device),
        lambda device: torch.randint(300, (1,), device=device, dtype=torch.uint8),
        lambda device: torch.randperm(-1, device=device),
        lambda device: torch.randperm(5000, device=device, dtype=torch.float16),
        lambda device: torch.rand(3, device=device, dtype=torch.int64),
        lambda device: torch.zeros_like(torch.zeros(2, 3, device=device), memory_format=torch.channels_last),
    ],
)
def test_errors_are_the_cpus(call: Callable[[str], torch.Tensor]) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011 (the CPU's, whatever it is)
        call("cpu")
    with pytest.raises(type(expected.value)):
        call("rustdev")
    assert torch.ones(2, device="rustdev").sum().item() == 2


def test_a_generator_decides_what_a_factory_draws() -> None:
    def draw() -> list[torch.Tensor]:
        generator = torch.Generator("rustdev").manual_seed(7)
        options = {"device": "rustdev", "generator": generator}
        return [
            torch.rand(9, **options),
            torch.randn(9, **options),
            torch.randint(99, (9,), **options),
            torch.randint(5, 99, (9,), **options),
            torch.randperm(9, **options),
        ]

    for one, other in zip(draw(), draw(), strict=True):
        assert torch.equal(one, other)


def test_new_memory_is_marked_for_deterministic_algorithms() -> None:
    like = torch.zeros(3, device="rustdev")
    torch.use_deterministic_algorithms(mode=True)
    try:
        assert torch.empty_like(like).isnan().all().item()
    finally:
        torch.use_deterministic_algorithms(mode=False)
