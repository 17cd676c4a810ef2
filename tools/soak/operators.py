"""The operators of random programs.

Programs pass results to further operators, so all operators but those of ``leaf`` are exact or correctly rounded: the device's
results are bitwise equal to the CPU's. The result of a leaf is compared within a tolerance and not used further.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

Tensors = list[torch.Tensor]
#: Tells whether an operator accepts given operands.
Takes = Callable[[Tensors], bool]
INTEGERS = (torch.uint8, torch.int32, torch.int64)
FLOATS = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
DTYPES = (torch.bool, *INTEGERS, *FLOATS, torch.complex64)


@dataclass(frozen=True)
class Operator:
    """One operator: a function of the operands and of a number that determines the other arguments."""

    call: Callable[[Tensors, int], torch.Tensor]
    operands: int = 1  # how many tensors; an operator that writes does so to the first
    takes: Takes = lambda operands: True
    kind: str = "new"  # or "view", "write", or "leaf" for an inexact result


def each(condition: Callable[[torch.Tensor], bool]) -> Takes:
    """Return whether all operands fulfil a condition."""
    return lambda operands: all(map(condition, operands))


def both(*conditions: Takes) -> Takes:
    """Return the conjunction of conditions."""
    return lambda operands: all(condition(operands) for condition in conditions)


real = each(lambda it: not it.is_complex())
numbers = each(lambda it: it.dtype is not torch.bool)
integers = each(lambda it: it.dtype in INTEGERS)
floats = each(lambda it: it.is_floating_point())
has_elements = each(lambda it: it.dim() > 0 and it.numel() > 0)
#: Small enough for a larger result, with more dimensions.
small = each(lambda it: it.dim() < 3 and it.numel() < 10_000)


def broadcast(operands: Tensors) -> bool:
    """Whether the operands broadcast to at most 2^20 elements."""
    try:
        return bool(torch.broadcast_shapes(*(it.shape for it in operands)).numel() <= 1 << 20)
    except RuntimeError:
        return False


def complex_apart(operands: Tensors) -> bool:
    """Whether complex operands are not combined with real floating-point ones, which may be infinite.

    PyTorch's complex addition multiplies by alpha, which yields NaN next to an infinite part; the device's yields the sum.
    """
    return len({it.is_complex() for it in operands if it.is_complex() or it.is_floating_point()}) < 2


def into_first(operands: Tensors) -> bool:
    """Whether a result of all operands can be written to the first."""
    first, *others = operands
    wide = first.dtype
    for it in others:
        wide = torch.promote_types(wide, it.dtype)
    fits = broadcast(operands) and torch.broadcast_shapes(*(it.shape for it in operands)) == first.shape
    return fits and wide is first.dtype and complex_apart(operands)


def same_sizes(operands: Tensors) -> bool:
    """Whether the operands have the same sizes."""
    return all(it.shape == operands[0].shape for it in operands)


def dim_of(tensor: torch.Tensor, choice: int) -> int:
    """Choose a dimension."""
    return choice % tensor.dim()


def part(tensor: torch.Tensor, choice: int) -> tuple[int, int, int]:
    """Choose a dimension, a start index and a length."""
    dim = dim_of(tensor, choice)
    start = choice // 7 % tensor.shape[dim]
    return dim, start, 1 + choice // 11 % (tensor.shape[dim] - start)


def rows(tensor: torch.Tensor, choice: int) -> tuple[int, torch.Tensor]:
    """Choose a dimension and distinct indices in it."""
    dim = dim_of(tensor, choice)
    order = torch.randperm(tensor.shape[dim], generator=torch.Generator().manual_seed(choice))
    return dim, order[: 1 + choice % tensor.shape[dim]].to(tensor.device)


def cast(tensor: torch.Tensor, choice: int) -> torch.Tensor:
    """Convert to a dtype. Out-of-range conversions to integers, undefined in C, and non-finite complex numbers are avoided."""
    dtype = DTYPES[choice % len(DTYPES)]
    if tensor.is_complex():
        return tensor.to(torch.complex128, copy=True)
    if (dtype in INTEGERS or dtype.is_complex) and tensor.is_floating_point():
        return tensor.nan_to_num(0.0, 100.0, 0.0).clamp(0, 100).to(dtype)
    return tensor.to(dtype, copy=True)


def write(call: Callable[[Tensors, int], torch.Tensor], operands: int, takes: Takes) -> Operator:
    """Return an operator that writes to its first operand."""
    return Operator(call, operands, both(has_elements, takes), "write")


def view(call: Callable[[torch.Tensor, int], torch.Tensor], takes: Takes = has_elements) -> Operator:
    """Return an operator whose result is a view of its operand."""
    return Operator(lambda given, choice: call(given[0], choice), 1, takes, "view")


def leaf(call: Callable[[torch.Tensor], torch.Tensor]) -> Operator:
    """Return an operator with an inexact result, applied to values clamped to [-3, 3]."""
    return Operator(
        lambda given, choice: call(given[0].nan_to_num(0.0, 3.0, -3.0).clamp(-3, 3)), 1, both(floats, has_elements), "leaf"
    )


def new(call: Callable[[torch.Tensor, int], torch.Tensor], takes: Takes = has_elements) -> Operator:
    """Return an operator that computes a new tensor from one operand."""
    return Operator(lambda given, choice: call(given[0], choice), 1, takes)


def pair(call: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], takes: Takes) -> Operator:
    """Return an operator that computes a new tensor from two operands."""
    return Operator(lambda given, choice: call(*given), 2, both(broadcast, complex_apart, takes))


def positive_zeros(tensor: torch.Tensor) -> torch.Tensor:
    """Replace -0 by 0: which of them the CPU considers greater depends on the memory position of an element."""
    return tensor + 0 if tensor.is_floating_point() else tensor


def matrices(tensor: torch.Tensor) -> torch.Tensor:
    """Return rows @ rows.T for the first 64 rows of a tensor."""
    rows = tensor.reshape(-1, tensor.shape[-1])[:64]
    return rows @ rows.t()


OPERATORS: dict[str, Operator] = {
    "add": pair(torch.add, lambda _: True),
    "sub": pair(torch.sub, numbers),
    "mul": pair(torch.mul, real),
    "div": pair(torch.div, both(floats, real)),
    "maximum": pair(lambda left, right: positive_zeros(torch.maximum(left, right)), real),
    "eq": pair(torch.eq, lambda _: True),
    "lt": pair(torch.lt, real),
    "xor": pair(torch.bitwise_xor, integers),
    "where": Operator(lambda it, _: torch.where(it[0] == it[0], it[1], it[2]), 3, both(broadcast, complex_apart)),
    "neg": new(lambda it, _: -it, numbers),
    "abs": new(lambda it, _: it.abs(), both(real, numbers)),
    "clamp": new(lambda it, _: it.clamp(-5, 50), both(real, numbers)),
    "cast": new(cast),
    "clone": new(lambda it, _: it.clone()),
    "contiguous": new(lambda it, _: it.clone(memory_format=torch.contiguous_format)),
    "flip": new(lambda it, choice: it.flip(dim_of(it, choice))),
    "roll": new(lambda it, choice: it.roll(choice % 5, dim_of(it, choice))),
    "cat": Operator(
        lambda it, choice: torch.cat(it, dim_of(it[0], choice)), 2, both(has_elements, same_sizes, small, complex_apart)
    ),
    "index_select": new(lambda it, choice: it.index_select(*rows(it, choice))),
    "masked_fill": new(lambda it, choice: it.masked_fill(it == 1, choice % 3)),
    "cumsum": new(lambda it, choice: it.cumsum(dim_of(it, choice)), both(integers, has_elements)),
    "sum": new(lambda it, choice: it.sum(dim_of(it, choice)), both(integers, has_elements)),
    "amax": new(lambda it, choice: positive_zeros(it.amax(dim_of(it, choice))), both(real, has_elements)),
    "sort": new(lambda it, choice: it.sort(dim_of(it, choice)).values, both(real, has_elements)),
    "any": new(lambda it, choice: it.any(dim_of(it, choice))),
    "transpose": view(lambda it, choice: it.transpose(dim_of(it, choice), -1)),
    "narrow": view(lambda it, choice: it.narrow(*part(it, choice))),
    "select": view(lambda it, choice: it.select(*part(it, choice)[:2])),
    "step": view(lambda it, choice: it[part(it, choice)[1] % it.shape[0] :: 2]),
    "unsqueeze": view(lambda it, choice: it.unsqueeze(dim_of(it, choice)), lambda it: 0 < it[0].dim() < 4),
    "expand": view(lambda it, choice: it.expand(2, *it.shape), small),
    "unfold": view(lambda it, choice: it.unfold(*part(it, choice)[::2], 1), both(has_elements, small)),
    "flatten": view(lambda it, _: it.view(-1), lambda it: it[0].is_contiguous()),
    "add_": write(lambda it, _: it[0].add_(it[1]), 2, into_first),
    "sub_": write(lambda it, _: it[0].sub_(it[1]), 2, both(into_first, numbers)),
    "mul_": write(lambda it, _: it[0].mul_(it[1]), 2, both(into_first, real)),
    "copy_": write(lambda it, _: it[0].copy_(it[1]), 2, into_first),
    "fill_": write(lambda it, choice: it[0].fill_(choice % 3), 1, has_elements),
    "zero_": write(lambda it, _: it[0].zero_(), 1, has_elements),
    "clamp_": write(lambda it, _: it[0].clamp_(-5, 50), 1, both(real, numbers)),
    "masked_fill_": write(lambda it, choice: it[0].masked_fill_(it[1] == 1, choice % 2), 2, same_sizes),
    "index_fill_": write(lambda it, choice: it[0].index_fill_(*rows(it[0], choice), choice % 2), 1, has_elements),
    "add.out": write(lambda it, _: torch.add(it[1], it[2], out=it[0]), 3, lambda it: into_first(it) and it[1].shape == it[0].shape),
    "exp": leaf(torch.exp),
    "softmax": leaf(lambda it: it.softmax(-1)),
    "mean": leaf(lambda it: it.mean(-1)),
    "matmul": leaf(matrices),
    "tanh": leaf(torch.tanh),
}


def make(shape: tuple[int, ...], dtype: torch.dtype, choice: int) -> torch.Tensor:
    """Return a CPU tensor of small random integers."""
    low = -8 if dtype in (*FLOATS, torch.int32, torch.int64) else 0
    values = torch.randint(low, 2 if dtype is torch.bool else 9, shape, generator=torch.Generator().manual_seed(choice))
    return values.to(dtype)
