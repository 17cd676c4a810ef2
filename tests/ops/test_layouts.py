"""Tensors with overlapping elements, sizes of 0 and mixed kinds of operands: results and errors are those of the CPU."""

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional
from torch.utils import _pytree as pytree

aten = torch.ops.aten
pytestmark = pytest.mark.usefixtures("strict")


def numbers(device: str, *shape: int, seed: int = 0) -> torch.Tensor:
    """Return random numbers from 0 to 1."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)).to(device)


def expanded(device: str, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return a tensor all of whose elements are the same one."""
    return torch.zeros((), dtype=dtype, device=device).expand(shape)


def shifted(device: str, *shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two tensors in the same memory, the second an element further than the first."""
    size = torch.Size(shape).numel()
    memory = numbers(device, size + 1)
    return memory[:size].view(shape), memory[1:].view(shape)


def outcome(call: Callable[[str], object], device: str) -> tuple[type[Exception] | None, object]:
    """Return the type of a call's exception, and its result with every tensor on the CPU."""
    try:
        result = call(device)
        torch.rustdev.synchronize()
    except (RuntimeError, TypeError, ValueError) as refusal:
        return type(refusal), None
    return None, pytree.tree_map_only(torch.Tensor, lambda it: (it.cpu(), it.stride()), result)


def pairs(device: str, name: str) -> object:
    """Call an operator of one tensor and a dimension, whose result lies across that tensor."""
    given, target = shifted(device, 4)
    return getattr(torch, name)(given, 0, out=target)


def product_across(device: str, name: str, *shape: int) -> object:
    """Call addmm or addmv, whose result lies across what is added."""
    given, target = shifted(device, *shape)
    return getattr(torch, name)(given, numbers(device, 3, 3), numbers(device, *shape), out=target)


def sort_into(device: str, values: torch.Tensor) -> object:
    """Sort five numbers into a tensor."""
    return torch.sort(numbers(device, 5), out=(values, torch.empty(5, dtype=torch.int64, device=device)))


def msort_across(device: str) -> object:
    """Sort into memory an element further than the input's."""
    given, target = shifted(device, 5)
    return torch.msort(given, out=target)


def positions_across(device: str, call: Callable[[torch.Tensor, tuple[torch.Tensor, torch.Tensor]], object]) -> object:
    """Call an operator that gives values, across the input, and indices."""
    given, target = shifted(device, 5)
    return call(given, (target, torch.empty(5, dtype=torch.int64, device=device)))


def extreme_into(device: str, name: str, what: str) -> object:
    """Call an operator that gives values and indices of columns, one of which share an element."""
    given, counts = numbers(device, 5, 4), {"kthvalue": (2, 0), "topk": (2, 0)}
    shape = (2, 4) if name == "topk" else (4,)
    values = expanded(device, *shape) if what == "value" else torch.empty(shape, device=device)
    kind = {"dtype": torch.int64}
    positions = expanded(device, *shape, **kind) if what == "place" else torch.empty(shape, device=device, **kind)
    return getattr(torch, name)(given, *counts.get(name, (0,)), out=(values, positions))


def unscale(device: str) -> object:
    """Unscale gradients of several dtypes and layouts."""
    plain = numbers(device, 4, 6)
    gradients = [plain.clone(), plain.clone().t(), plain.clone()[:, ::2], plain.half(), plain.double(), plain.clone()[0, ::2]]
    infinite = torch.zeros(1, device=device)
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, infinite, torch.full((1,), 0.5, device=device))
    return gradients, infinite


CASES: dict[str, Callable[[str], object]] = {
    "mm into one element": lambda d: torch.mm(numbers(d, 3, 3), numbers(d, 3, 3), out=expanded(d, 3, 3)),
    "addmm into one element": lambda d: torch.addmm(numbers(d, 3, 3), numbers(d, 3, 3), numbers(d, 3, 3), out=expanded(d, 3, 3)),
    "addmv into one element": lambda d: torch.addmv(numbers(d, 3), numbers(d, 3, 3), numbers(d, 3), out=expanded(d, 3)),
    "bmm into one element": lambda d: torch.bmm(numbers(d, 2, 3, 3), numbers(d, 2, 3, 3), out=expanded(d, 2, 3, 3)),
    "cumsum into one element": lambda d: torch.cumsum(numbers(d, 5), 0, out=expanded(d, 5)),
    "cumprod into one element": lambda d: torch.cumprod(numbers(d, 5), 0, out=expanded(d, 5)),
    "logcumsumexp into one element": lambda d: torch.logcumsumexp(numbers(d, 5), 0, out=expanded(d, 5)),
    "msort into one element": lambda d: torch.msort(numbers(d, 5), out=expanded(d, 5)),
    "sort into one element": lambda d: sort_into(d, expanded(d, 5)),
    "multinomial into one element": lambda d: torch.multinomial(numbers(d, 5), 3, out=expanded(d, 3, dtype=torch.int64)),
    "mean into one element": lambda d: torch.mean(numbers(d, 3, 4), 0, out=expanded(d, 4)),
    "add into one element": lambda d: torch.add(numbers(d, 5), 1, out=expanded(d, 5)),
    "cumsum across its input": lambda d: pairs(d, "cumsum"),
    "cumprod across its input": lambda d: pairs(d, "cumprod"),
    "logcumsumexp across its input": lambda d: pairs(d, "logcumsumexp"),
    "addmm across its input": lambda d: product_across(d, "addmm", 3, 3),
    "addmv across its input": lambda d: product_across(d, "addmv", 3),
    "cumsum_ of one element": lambda d: expanded(d, 5).cumsum_(0),
    "addmm_ of one element": lambda d: expanded(d, 3, 3).addmm_(numbers(d, 3, 3), numbers(d, 3, 3)),
    "matmul into one element": lambda d: torch.matmul(numbers(d, 3, 3), numbers(d, 3, 3), out=expanded(d, 3, 3)),
    "aminmax into one element": lambda d: torch.aminmax(numbers(d, 5, 5), dim=0, out=(expanded(d, 5), numbers(d, 5))),
    "reflection_pad1d into one element": lambda d: aten.reflection_pad1d.out(numbers(d, 1, 4), [1, 1], out=expanded(d, 1, 6)),
    "reflection_pad2d into one element": lambda d: aten.reflection_pad2d.out(
        numbers(d, 1, 3, 3), [1] * 4, out=expanded(d, 1, 5, 5)
    ),
    "replication_pad1d into one element": lambda d: aten.replication_pad1d.out(numbers(d, 1, 4), [1, 1], out=expanded(d, 1, 6)),
    "msort across its input": msort_across,
    "sort across its input": lambda d: positions_across(d, lambda given, out: torch.sort(given, out=out)),
    "topk across its input": lambda d: positions_across(d, lambda given, out: torch.topk(given, 5, out=out)),
    "zero_ of one element": lambda d: expanded(d, 3).zero_(),
    "fill_ of one element": lambda d: expanded(d, 3).fill_(2),
    "ones into one element": lambda d: torch.ones(3, out=expanded(d, 3)),
    "zeros into one element": lambda d: torch.zeros(3, out=expanded(d, 3)),
    "full into one element": lambda d: torch.full((3,), 2.0, out=expanded(d, 3)),
    "randperm into one element": lambda d: torch.randperm(5, out=expanded(d, 5, dtype=torch.int64)).shape,
    "_foreach_zero_ of one element": lambda d: torch._foreach_zero_([expanded(d, 4)]),
    "fill_diagonal_ of one element": lambda d: expanded(d, 3, 3).fill_diagonal_(1.0),
    "empty into one element": lambda d: torch.empty(3, out=expanded(d, 3)),
    "eye into one element": lambda d: torch.eye(3, out=expanded(d, 3, 3)),
    "histc into one element": lambda d: torch.histc(numbers(d, 5), 3, out=expanded(d, 3)),
    "vecdot into one element": lambda d: torch.linalg.vecdot(numbers(d, 3, 4), numbers(d, 3, 4), out=expanded(d, 3)),
    "glu_backward into one element": lambda d: aten.glu_backward.grad_input(
        numbers(d, 1), numbers(d, 2), 0, grad_input=expanded(d, 2)
    ),
    "layer_norm of nothing": lambda d: functional.layer_norm(numbers(d, 5, 0, 4), (4,), numbers(d, 4), numbers(d, 4)),
    "where of two numbers of the CPU": lambda d: torch.where(numbers(d, 4) > 0.5, torch.tensor(1.0), torch.tensor(2.0)),
    "where of bfloat16 and complex": lambda d: torch.where(numbers(d, 4) > 0.5, numbers(d, 4).bfloat16(), numbers(d, 4).cfloat()),
    "channel_shuffle of a transposed image": lambda d: functional.channel_shuffle(numbers(d, 2, 6, 4, 5).transpose(2, 3), 3),
    "unscaling of many kinds": unscale,
}
CASES |= {
    f"{name} into one {what}": lambda d, name=name, what=what: extreme_into(d, name, what)
    for name in ("max", "min", "median", "nanmedian", "kthvalue", "topk")
    for what in ("value", "place")
}
CASES |= {
    f"embedding_bag with {first} and {second}": lambda d, first=first, second=second: functional.embedding_bag(
        torch.tensor([0, 2, 1, 1], dtype=first, device=d), numbers(d, 3, 2), torch.tensor([0, 2], dtype=second, device=d)
    )
    for first in (torch.int64, torch.int32)
    for second in (torch.int64, torch.int32)
}


@pytest.mark.parametrize("name", CASES)
def test_results_and_refusals_are_the_cpus(name: str) -> None:
    (refusal, expected), (mistake, actual) = (outcome(CASES[name], device) for device in ("cpu", "rustdev"))
    assert mistake is refusal
    if refusal is None:
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("shift", [0, 1, 9])
@pytest.mark.parametrize("sizes", [(3, 3), (2, 3, 3)])
def test_a_product_into_the_memory_of_a_factor_is_right(sizes: tuple[int, ...], shift: int) -> None:
    factor, memory = numbers("rustdev", *sizes), torch.zeros(64, device="rustdev")
    expected = factor.cpu() @ factor.cpu()
    given = memory[: factor.numel()].view(sizes).copy_(factor)
    torch.matmul(given, factor, out=memory[shift : shift + factor.numel()].view(sizes))
    torch.testing.assert_close(memory[shift : shift + factor.numel()].view(sizes).cpu(), expected)
