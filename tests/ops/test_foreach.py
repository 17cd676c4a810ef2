"""Foreach operators against the CPU: one launch for tensors that fit together, and PyTorch's slow path for others."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from comparison import TOLERANCE, assert_same

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SHAPES: list[tuple[int, ...]] = [(), (5,), (0,), (3, 4), (64,), (100, 7), (200, 200)]
EACH = [0.5, 2.0, -1.0, 0.25, 3.0, 0.75, 1.5]
Lists = list[list[torch.Tensor]]

# The row that serves the call, how many lists it takes, and the call itself, functional and in place.
CALLS: list[tuple[str, int, str, Callable[[Lists], tuple[Any, ...]], dict[str, Any]]] = [
    ("add.List", 2, "add", tuple, {}),
    ("add.List", 2, "add", tuple, {"alpha": 0.3}),
    ("add.Scalar", 1, "add", lambda lists: (lists[0], 0.3), {}),
    ("add.Scalar", 1, "add", lambda lists: (lists[0], 2), {}),
    ("add.Scalar", 1, "add", lambda lists: (lists[0], EACH), {}),
    ("add.Scalar", 1, "add", lambda lists: (lists[0], number(lists)), {"alpha": 2}),
    ("addcdiv.Scalar", 3, "addcdiv", tuple, {"value": 0.3}),
    ("addcdiv.Scalar", 3, "addcdiv", lambda lists: (*lists, EACH), {}),
    ("addcmul.Scalar", 3, "addcmul", tuple, {"value": 0.3}),
    ("addcmul.Scalar", 3, "addcmul", lambda lists: (*lists, EACH), {}),
    ("div.List", 2, "div", tuple, {}),
    ("div.Scalar", 1, "div", lambda lists: (lists[0], 0.3), {}),
    ("div.Scalar", 1, "div", lambda lists: (lists[0], EACH), {}),
    ("div.Scalar", 1, "div", lambda lists: (lists[0], number(lists)), {}),
    ("lerp.List", 3, "lerp", tuple, {}),
    ("lerp.Scalar", 2, "lerp", lambda lists: (*lists, 0.3), {}),
    ("lerp.Scalar", 2, "lerp", lambda lists: (*lists, EACH), {}),
    ("maximum.List", 2, "maximum", tuple, {}),
    ("minimum.List", 2, "minimum", tuple, {}),
    ("mul.List", 2, "mul", tuple, {}),
    ("mul.Scalar", 1, "mul", lambda lists: (lists[0], 0.3), {}),
    ("mul.Scalar", 1, "mul", lambda lists: (lists[0], EACH), {}),
    ("mul.Scalar", 1, "mul", lambda lists: (lists[0], number(lists)), {}),
    ("neg", 1, "neg", tuple, {}),
    ("reciprocal", 1, "reciprocal", tuple, {}),
    ("sqrt", 1, "sqrt", tuple, {}),
    ("sub.List", 2, "sub", tuple, {"alpha": 0.3}),
    ("sub.Scalar", 1, "sub", lambda lists: (lists[0], 0.3), {}),
    ("sub.Scalar", 1, "sub", lambda lists: (lists[0], EACH), {}),
    ("zero_", 1, "zero", tuple, {}),
]
# Operators without further arguments, whose row runs the elementwise kernel over every tensor.
UNARY = ["abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma", "log"]
UNARY += ["log10", "log1p", "log2", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "tan", "tanh", "trunc"]
CALLS += [(name, 1, name, tuple, {}) for name in UNARY]
for kind, row, list_row in [("clamp_max", "clamp_max", "minimum"), ("clamp_min", "clamp_min", "maximum")]:
    CALLS += [(f"{list_row}.List", 2, kind, tuple, {})]
    for name in (kind, list_row):
        CALLS += [(f"{row}.Scalar", 1, name, lambda lists: (lists[0], 0.3), {})]
        CALLS += [(f"{row}.Scalar", 1, name, lambda lists: (lists[0], EACH), {})]
CALLS += [
    ("addcdiv.Scalar", 3, "addcdiv", lambda lists: (*lists, torch.tensor(EACH)), {}),
    ("addcmul.Scalar", 3, "addcmul", lambda lists: (*lists, torch.tensor(EACH)), {}),
    ("pow.List", 2, "pow", tuple, {}),
    ("pow.Scalar", 1, "pow", lambda lists: (lists[0], 0.3), {}),
    ("pow.Scalar", 1, "pow", lambda lists: (lists[0], 2), {}),
    ("pow.Scalar", 1, "pow", lambda lists: (lists[0], EACH), {}),
]
NAMES = [f"{row}-{index}" for index, (row, *_) in enumerate(CALLS)]

pytestmark = pytest.mark.usefixtures("strict")


def number(lists: Lists) -> torch.Tensor:
    """Return a number of the lists' dtype, on their device."""
    return torch.tensor(0.75, dtype=lists[0][0].dtype, device=lists[0][0].device)


def make(seed: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """Return tensors of several shapes, one of them not contiguous, without values near 0."""
    generator = torch.Generator().manual_seed(seed)
    values = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in SHAPES[:-1]]
    values.append(torch.randn(SHAPES[-1], generator=generator, dtype=torch.float64).t())
    return [(value + 0.5 * value.sign()).to(dtype) for value in values]


def calls(row: str) -> int:
    """Return how often a row was launched."""
    return int(torch.rustdev.op_calls()[f"_foreach_{row}"])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("row", "count", "name", "arguments", "options"), CALLS, ids=NAMES)
def test_one_launch(
    row: str,
    count: int,
    name: str,
    arguments: Callable[[Lists], tuple[Any, ...]],
    options: dict[str, Any],
    dtype: torch.dtype,
) -> None:
    compare(row, name, arguments, options, dtype, [make(seed, dtype) for seed in range(count)])


def compare(
    row: str, name: str, arguments: Callable[[Lists], tuple[Any, ...]], options: dict[str, Any], dtype: torch.dtype, host: Lists
) -> None:
    """Call an operator over lists of both devices, functional and in place, in one launch each."""
    device = [[tensor.to("rustdev") for tensor in values] for values in host]
    before = calls(row)
    if name != "zero":
        function = getattr(torch, f"_foreach_{name}")
        assert_same(function(*arguments(device), **options), function(*arguments(host), **options), rtol=TOLERANCE)
        before += 1
    inplace = getattr(torch, f"_foreach_{name}_")
    versions = [tensor._version for tensor in device[0]]
    inplace(*arguments(device), **options)
    inplace(*arguments(host), **options)
    assert_same(device[0], host[0], rtol=TOLERANCE)
    assert [tensor._version for tensor in device[0]] == [version + 1 for version in versions]
    assert calls(row) == before + 1


# Calls that take integers and complex numbers as well.
WHOLE: list[tuple[str, int, str, Callable[[Lists], tuple[Any, ...]], dict[str, Any]]] = [
    ("add.List", 2, "add", tuple, {"alpha": 3}),
    ("add.Scalar", 1, "add", lambda lists: (lists[0], 2), {}),
    ("add.Scalar", 1, "add", lambda lists: (lists[0], list(range(7))), {}),
    ("add.Scalar", 1, "add", lambda lists: (lists[0], torch.tensor(3).to(lists[0][0])), {"alpha": 2}),
    ("addcmul.Scalar", 3, "addcmul", tuple, {"value": 2}),
    ("mul.List", 2, "mul", tuple, {}),
    ("mul.Scalar", 1, "mul", lambda lists: (lists[0], 3), {}),
    ("neg", 1, "neg", tuple, {}),
    ("sub.List", 2, "sub", tuple, {"alpha": 2}),
    ("sub.Scalar", 1, "sub", lambda lists: (lists[0], 2), {}),
    ("zero_", 1, "zero", tuple, {}),
]
INTEGERS = [
    *WHOLE,
    ("abs", 1, "abs", tuple, {}),
    ("maximum.List", 2, "maximum", tuple, {}),
    ("minimum.List", 2, "clamp_max", tuple, {}),
]
FIELDS = [*WHOLE, ("div.List", 2, "div", tuple, {}), ("mul.Scalar", 1, "mul", lambda lists: (lists[0], 2.5 - 1j), {})]
FIELDS += [(name, 1, name, tuple, {}) for name in ("exp", "reciprocal", "sigmoid", "sqrt", "tanh")]
DTYPES = [(case, dtype) for dtype in (torch.uint8, torch.int8, torch.int32, torch.int64) for case in INTEGERS]
DTYPES += [(case, dtype) for dtype in (torch.complex64, torch.complex128) for case in FIELDS]


@pytest.mark.parametrize(("case", "dtype"), DTYPES, ids=lambda value: str(value) if isinstance(value, torch.dtype) else value[0])
def test_other_dtypes(case: tuple[str, int, str, Callable[[Lists], tuple[Any, ...]], dict[str, Any]], dtype: torch.dtype) -> None:
    row, count, name, arguments, options = case
    host = [[(5 * tensor).to(dtype) for tensor in make(seed, torch.float64)] for seed in range(count)]
    if dtype.is_complex:
        host = [[tensor * torch.tensor(0.7 - 0.4j, dtype=dtype) for tensor in values] for values in host]
    compare(row, name, arguments, options, dtype, host)


def test_a_number_to_powers() -> None:
    for dtype in FLOATS:
        host = make(0, dtype)
        before = calls("pow.ScalarAndTensor")
        mine = torch._foreach_pow(1.7, [tensor.to("rustdev") for tensor in host])
        assert calls("pow.ScalarAndTensor") == before + 1
        assert_same(mine, torch._foreach_pow(1.7, host), rtol=TOLERANCE)


@pytest.mark.filterwarnings("ignore:Casting complex values to real")  # the CPU's own
@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64], ids=str)
@pytest.mark.parametrize("order", [0, 1, 2, 3.5, -2, float("inf"), -float("inf")])
def test_norms_in_one_launch(order: float, dtype: torch.dtype) -> None:
    host = [tensor for tensor in make(3, dtype) if tensor.numel()] + [torch.rand(300_000).to(dtype)]
    device = [tensor.to("rustdev") for tensor in host]
    before = calls("norm.Scalar")
    mine = torch._foreach_norm(device, order)
    assert calls("norm.Scalar") == before + 1
    assert_same(mine, torch._foreach_norm(host, order), rtol=max(TOLERANCE[dtype.to_real()], 1e-4))
    wide = torch.complex128 if dtype.is_complex else torch.float64
    assert_same(torch._foreach_norm(device, order, wide), torch._foreach_norm(host, order, wide), rtol=1e-5)
    nothing = [torch.ones(0), torch.full((), 2.0)]
    if order >= 0 and order != float("inf"):
        assert_same(torch._foreach_norm([tensor.to("rustdev") for tensor in nothing], order), torch._foreach_norm(nothing, order))


def test_norms_are_refused_as_on_the_cpu() -> None:
    for device in ("cpu", "rustdev"):
        with pytest.raises(RuntimeError, match="floating point or complex"):
            torch._foreach_norm([torch.arange(3, device=device)])
        with pytest.raises(RuntimeError, match=r"empty tensor|no identity"):
            torch._foreach_norm([torch.ones(0, device=device)], float("inf"))
        with pytest.raises(RuntimeError, match="at least one tensor"):
            torch._foreach_norm([])


def test_greatest_values_in_one_launch() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        host = [tensor.to(dtype) for tensor in make(4, torch.float64) if tensor.numel()]
        before = calls("max")
        mine = torch._foreach_max([tensor.to("rustdev") for tensor in host])
        assert calls("max") == before + 1
        assert_same(mine, torch._foreach_max(host))


@pytest.mark.parametrize("target", [torch.float32, torch.bfloat16, torch.int64, torch.complex64, torch.bool], ids=str)
@pytest.mark.parametrize("source", [torch.float32, torch.float16, torch.int32], ids=str)
def test_copies_in_one_launch(source: torch.dtype, target: torch.dtype) -> None:
    host = [5 * tensor for tensor in make(5, torch.float64)]
    given = [tensor.to(source) for tensor in host]
    expected = [tensor.to(target) for tensor in given]
    results = [torch.zeros_like(tensor, device="rustdev") for tensor in expected]
    versions, before = [tensor._version for tensor in results], calls("copy_")
    torch._foreach_copy_(results, [tensor.to("rustdev") for tensor in given])
    assert calls("copy_") == before + 1
    assert_same(results, expected)
    assert [tensor._version for tensor in results] == [version + 1 for version in versions]


def test_copies_of_other_kinds() -> None:
    host = [torch.arange(6.0).view(2, 3), torch.arange(3.0)]
    before = calls("copy_")
    results = [torch.zeros(3, 2, device="rustdev").t(), torch.zeros(2, 3, device="rustdev")]
    torch._foreach_copy_(results, [tensor.to("rustdev") for tensor in host])
    assert_same([result.contiguous() for result in results], [host[0], host[1].expand(2, 3).contiguous()])
    torch._foreach_copy_(results, host)
    assert_same([results[0].contiguous()], host[:1])
    assert calls("copy_") == before


def test_other_calls_go_tensor_after_tensor() -> None:
    def run(device: str) -> list[list[torch.Tensor]]:
        whole = [torch.arange(6, dtype=torch.int8).to(device), torch.arange(3, dtype=torch.int8).to(device)]
        narrow = [torch.ones(2, 3, device=device), torch.ones(3, device=device)]
        wide = [torch.ones(3, 2, device=device, dtype=torch.float64).t(), torch.ones(3, device=device, dtype=torch.float64)]
        sliced = [torch.arange(8.0).to(device)[::2], torch.ones(3, device=device)]
        results = [
            torch._foreach_add(whole, 2.5),
            torch._foreach_mul(whole, 300),
            torch._foreach_exp(whole),
            torch._foreach_maximum(whole, 2),
            torch._foreach_div(whole, [2, 4]),
            torch._foreach_add(narrow, wide, alpha=2),
            torch._foreach_mul(narrow, 2j),
            torch._foreach_mul(sliced, 2.0),
            torch._foreach_mul(narrow, [tensor[:1] for tensor in narrow]),
            torch._foreach_mul(whole, torch.tensor(2.5, device=device)),
        ]
        torch._foreach_add_(sliced, 1.0)
        return [*results, sliced]

    before = torch.rustdev.op_calls()
    assert_same(run("rustdev"), run("cpu"), rtol=TOLERANCE)
    after = torch.rustdev.op_calls()
    assert not [name for name in after if name.startswith("_foreach_") and after[name] != before[name]]


def test_errors_are_those_of_pytorch() -> None:
    for device in ("cpu", "rustdev"):
        ones = [torch.ones(2, device=device)]
        with pytest.raises(RuntimeError, match="at least one tensor"):
            torch._foreach_add([], 1.0)
        with pytest.raises(RuntimeError, match="same number of tensors"):
            torch._foreach_add(ones, [*ones, *ones])
        with pytest.raises(RuntimeError, match="same number of elements as scalar list"):
            torch._foreach_add(ones, [1.0, 2.0])
        with torch.inference_mode():
            inference = torch.ones(2, device=device)
        with pytest.raises(RuntimeError, match="inference tensor"):
            torch._foreach_add_([inference], 1.0)
        with pytest.raises(RuntimeError, match="Boolean alpha"):
            torch._foreach_add(ones, ones, alpha=True)
        with pytest.raises(RuntimeError, match=r"can't be cast|alpha must not be"):
            torch._foreach_add_(ones, 1j)


def test_tensors_that_share_memory_come_one_after_the_other() -> None:
    def run(device: str) -> list[torch.Tensor]:
        one, other = torch.ones(50_000, device=device), torch.full((50_000,), 2.0, device=device)
        torch._foreach_add_([one, one], 1.0)
        torch._foreach_add_([one, other], [other, one])
        torch._foreach_mul_([one, other], [one, other])
        flag = torch.tensor(1.0, device=device)
        steps = [torch.tensor(float(index), device=device) for index in range(5)]
        torch._foreach_sub_(steps, [flag] * 5)
        torch._foreach_mul_(steps, steps[2])
        return [one, other, *steps]

    assert_same(run("rustdev"), run("cpu"))


def test_long_lists_take_several_launches() -> None:
    tensors = [torch.full((), float(index), device="rustdev") for index in range(5000)]
    before = calls("add.Scalar")
    torch._foreach_add_(tensors, [float(index % 3) for index in range(5000)])
    assert calls("add.Scalar") == before + 2
    expected = torch.tensor([float(index + index % 3) for index in range(5000)])
    torch.testing.assert_close(torch.stack([tensor.cpu() for tensor in tensors]), expected)


def test_gradients_are_clipped_in_one_launch() -> None:
    torch.rustdev.set_fallback_mode("allow")
    parameters = [torch.nn.Parameter(torch.ones(10, device="rustdev")) for _ in range(3)]
    for parameter in parameters:
        parameter.grad = torch.full((10,), 2.0, device="rustdev")
    before = calls("mul.Scalar")
    norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    assert calls("mul.Scalar") == before + 1
    torch.testing.assert_close(norm.cpu(), torch.tensor(120.0).sqrt())
    torch.testing.assert_close(parameters[2].grad.cpu(), torch.full((10,), 2.0) / (torch.tensor(120.0).sqrt() + 1e-6))


@pytest.mark.parametrize("name", ["_foreach_add_", "_foreach_copy_", "_foreach_mul_"])
def test_lists_that_overlap_in_part_are_refused(name: str) -> None:
    values = torch.arange(5001.0, device="rustdev")
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        getattr(torch, name)([values[:-1]], [values[1:]])
    assert torch.equal(values.cpu(), torch.arange(5001.0))
    getattr(torch, name)([values[:2500]], [values[2500:5000]])


@pytest.mark.parametrize("shift", [0, 1, 3])
def test_calls_on_large_lists_that_wait_together_keep_their_order(shift: int) -> None:
    """They may run piece by piece together: never where a list has other elements of the memory that another one writes."""
    length = 300_000

    def run(device: str) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        memory = [torch.randint(-9, 9, (2 * length + 3,), generator=generator, dtype=torch.int32).to(device) for _ in range(3)]
        x, y, z = ([part[:length], part[length : 2 * length]] for part in memory)
        moved = [memory[0][shift : length + shift], memory[0][length + shift : 2 * length + shift]]
        if device != "cpu":
            torch.rustdev._sleep(20_000_000)
        torch._foreach_add_(x, y)
        torch._foreach_mul_(y, x)
        new = torch._foreach_sub(y, moved)
        torch._foreach_add_(z, new, alpha=2)
        del new
        torch._foreach_add_(moved, z)
        other = torch._foreach_mul(x, 3)
        torch._foreach_add_(y, [other[1], other[0]])
        torch._foreach_mul_(z, memory[2][-1].clone())
        return [*memory, *other]

    assert_same(run("rustdev"), run("cpu"))
