"""Foreach operators against the CPU: one launch for tensors that fit together, and PyTorch's slow path for others."""

from typing import Any

import pytest
import torch
from comparison import COMPLEX, FLOATS, TOLERANCE, assert_same, compare, compare_errors

SHAPES: list[tuple[int, ...]] = [(), (5,), (0,), (3, 4), (64,), (100, 7), (200, 200)]
EACH = [0.5, 2.0, -1.0, 0.25, 3.0, 0.75, 1.5]
Lists = list[list[torch.Tensor]]
#: The row that serves the call, how many lists it takes, the operator, further arguments, and options.
Case = tuple[str, int, str, tuple[Any, ...], dict[str, Any]]

NUMBER = torch.tensor(0.75)  # in the lists' dtype, on their device
CALLS: list[Case] = [
    ("add.List", 2, "add", (), {"alpha": 0.3}),
    ("add.Scalar", 1, "add", (2,), {}),
    ("add.Scalar", 1, "add", (NUMBER,), {"alpha": 2}),
    ("addcdiv.Scalar", 3, "addcdiv", (), {"value": 0.3}),
    ("addcmul.Scalar", 3, "addcmul", (), {"value": 0.3}),
    ("div.Scalar", 1, "div", (NUMBER,), {}),
    ("mul.Scalar", 1, "mul", (NUMBER,), {}),
    ("pow.Scalar", 1, "pow", (2,), {}),
    ("sub.List", 2, "sub", (), {"alpha": 0.3}),
    ("zero_", 1, "zero", (), {}),
]
# Lists alone, and with a number for all or for each tensor.
CALLS += [(f"{name}.List", 2, name, (), {}) for name in ("add", "div", "maximum", "minimum", "mul", "pow")]
CALLS += [("lerp.List", 3, "lerp", (), {}), ("minimum.List", 2, "clamp_max", (), {}), ("maximum.List", 2, "clamp_min", (), {})]
for values in (0.3, EACH):
    CALLS += [(f"{name}.Scalar", 1, name, (values,), {}) for name in ("add", "div", "mul", "pow", "sub", "clamp_max", "clamp_min")]
    CALLS += [("clamp_max.Scalar", 1, "minimum", (values,), {}), ("clamp_min.Scalar", 1, "maximum", (values,), {})]
    CALLS += [("lerp.Scalar", 2, "lerp", (values,), {})]
for values in (EACH, torch.tensor(EACH)):
    CALLS += [("addcdiv.Scalar", 3, "addcdiv", (values,), {}), ("addcmul.Scalar", 3, "addcmul", (values,), {})]
# Operators without further arguments, whose row runs the elementwise kernel over every tensor.
UNARY = ["abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma", "log"]
UNARY += ["log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh"]
CALLS += [(name, 1, name, (), {}) for name in [*UNARY, "trunc"]]
# Calls that take integers and complex numbers as well.
WHOLE: list[Case] = [
    ("add.List", 2, "add", (), {"alpha": 3}),
    ("add.Scalar", 1, "add", (2,), {}),
    ("add.Scalar", 1, "add", (list(range(7)),), {}),
    ("add.Scalar", 1, "add", (torch.tensor(3.0),), {"alpha": 2}),
    ("addcmul.Scalar", 3, "addcmul", (), {"value": 2}),
    ("mul.List", 2, "mul", (), {}),
    ("mul.Scalar", 1, "mul", (3,), {}),
    ("neg", 1, "neg", (), {}),
    ("sub.List", 2, "sub", (), {"alpha": 2}),
    ("sub.Scalar", 1, "sub", (2,), {}),
    ("zero_", 1, "zero", (), {}),
]
OF_INTEGERS: list[Case] = [*WHOLE, ("abs", 1, "abs", (), {}), ("maximum.List", 2, "maximum", (), {})]
OF_COMPLEX: list[Case] = [*WHOLE, ("div.List", 2, "div", (), {}), ("mul.Scalar", 1, "mul", (2.5 - 1j,), {})]
OF_COMPLEX += [(name, 1, name, (), {}) for name in ("exp", "reciprocal", "sigmoid", "sqrt", "tanh")]
CASES = [(case, dtype) for dtype in FLOATS for case in CALLS]
CASES += [(case, dtype) for dtype in (torch.uint8, torch.int8, torch.int32, torch.int64) for case in OF_INTEGERS]
CASES += [(case, dtype) for dtype in COMPLEX for case in OF_COMPLEX]


def make(seed: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """Return tensors of several shapes, one of them not contiguous, without values near 0."""
    generator = torch.Generator().manual_seed(seed)
    values = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in SHAPES[:-1]]
    values.append(torch.randn(SHAPES[-1], generator=generator, dtype=torch.float64).t())
    return [(value + 0.5 * value.sign()).to(dtype) for value in values]


def calls(row: str) -> int:
    """Return how often a row was launched."""
    return int(torch.rustdev.op_calls()[f"_foreach_{row}"])


@pytest.mark.parametrize(("case", "dtype"), CASES, ids=lambda value: str(value) if isinstance(value, torch.dtype) else value[0])
def test_one_launch(case: Case, dtype: torch.dtype) -> None:
    """Functional and in place."""
    row, count, name, further, options = case
    host = [make(seed, dtype) for seed in range(count)]
    if not dtype.is_floating_point:
        host = [[(5 * tensor).to(dtype) for tensor in make(seed, torch.float64)] for seed in range(count)]
    if dtype.is_complex:
        host = [[tensor * torch.tensor(0.7 - 0.4j, dtype=dtype) for tensor in values] for values in host]
    further = tuple(it.to(dtype) if isinstance(it, torch.Tensor) and it.dim() == 0 else it for it in further)

    def call(name: str, lists: Lists, *further: Any) -> tuple[Any, Lists]:
        before = [tensor._version for tensor in lists[0]]
        results = getattr(torch, name)(*lists, *further, **options)
        assert [tensor._version - 1 for tensor in lists[0]] == before or not name.endswith("_")
        return results, lists

    names = [f"_foreach_{name}_", *([f"_foreach_{name}"] if name != "zero" else [])]
    before = calls(row)
    for form in names:
        # Tensors with a number for each of the others stay on the host.
        numbers = [it for it in further if isinstance(it, torch.Tensor) and it.dim() == 0]
        rest = [it for it in further if not any(it is one for one in numbers)]
        compare(lambda lists, *given, form=form, rest=rest: call(form, lists, *given, *rest), host, *numbers, rtol=TOLERANCE)
    assert calls(row) == before + len(names)


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
    given = [(5 * tensor).to(source) for tensor in make(5, torch.float64)]
    results, before = [torch.zeros_like(tensor, dtype=target) for tensor in given], calls("copy_")

    def copy_all(results: list[torch.Tensor], given: list[torch.Tensor]) -> list[torch.Tensor]:
        versions = [tensor._version for tensor in results]
        torch._foreach_copy_(results, given)
        assert [tensor._version for tensor in results] == [version + 1 for version in versions]
        return results

    compare(copy_all, results, given)
    assert calls("copy_") == before + 1


def test_copies_of_other_kinds() -> None:
    host, results = [torch.arange(6.0).view(2, 3), torch.arange(3.0)], [torch.zeros(3, 2).t(), torch.zeros(2, 3)]
    before = calls("copy_")
    compare(torch._foreach_copy_, results, host)
    compare(lambda results: torch._foreach_copy_(results, host), results)
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


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch._foreach_add([], 1.0),
        lambda x: torch._foreach_add([x], [x, x]),
        lambda x: torch._foreach_add([x], [1.0, 2.0]),
        lambda x: torch._foreach_add([x], [x], alpha=True),
        lambda x: torch._foreach_add_([x], 1j),
        lambda x: torch._foreach_norm([]),
        lambda x: torch._foreach_norm([x.long()]),
        lambda x: torch._foreach_norm([x[:0]], float("inf")),
    ],
)
def test_errors_are_those_of_pytorch(call: Any) -> None:
    compare_errors(call, torch.ones(2))


def test_inference_tensors_are_not_written_to() -> None:
    with torch.inference_mode():
        inference = torch.ones(2, device="rustdev")
    with pytest.raises(RuntimeError, match="inference tensor"):
        torch._foreach_add_([inference], 1.0)


def test_tensors_that_share_memory_come_one_after_the_other() -> None:
    def run(one: torch.Tensor, other: torch.Tensor) -> list[torch.Tensor]:
        torch._foreach_add_([one, one], 1.0)
        torch._foreach_add_([one, other], [other, one])
        torch._foreach_mul_([one, other], [one, other])
        flag = torch.tensor(1.0, device=one.device)
        steps = [torch.tensor(float(index), device=one.device) for index in range(5)]
        torch._foreach_sub_(steps, [flag] * 5)
        torch._foreach_mul_(steps, steps[2])
        return [one, other, *steps]

    compare(run, torch.ones(50_000), torch.full((50_000,), 2.0))


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
