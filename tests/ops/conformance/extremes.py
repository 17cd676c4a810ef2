"""Extreme values of each dtype, and calls of operators with them."""

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from against_cpu import arguments
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, ReductionOpInfo, UnaryUfuncInfo
from torch.utils import _pytree as pytree

#: Samples of an operator that differ by more than shapes and values; more of them are left out.
FORMS = 4
#: Calls with tensors without dimensions: so many values are in a real dtype's extremes.
SINGLES = 60
#: Values of a wide dtype that an operator of one tensor is called with, evenly spaced among all patterns of bits.
PATTERNS = 1 << 15
#: Numbers where functions change their form: tails of exp, erf and tanh, halves, poles of gamma, quadrants.
NUMBERS = (0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 5.5, 10.0, 20.0, 87.5, 100.0, 1000.0)
#: The families of element-by-element calls with arguments of one shape.
ALIKE = {"every value", "pairs", "single", "numbers"}
#: The families of numbers whose sums or products overflow.
OVERFLOWING = {"large", "limits", "all"}
#: Numbers given as such, where an operator takes one in place of a tensor.
SCALARS = (0, 1, -1, 2, 3, 0.0, -0.0, 0.5, -0.5, -1.5, 2.5, 2.0**-100, 2.0**100, float("inf"), float("-inf"), float("nan"))
#: Operators that divide whole numbers: the smallest of them by -1 ends the program on the CPU, and its greatest divisor is below 0.
DIVIDING = {"__rdiv__", "__rmod__", "div", "floor_divide", "fmod", "gcd", "lcm", "remainder"}
#: Operators that end the program for tensors without elements, or smaller than their other arguments say, on the CPU.
SIZED = {"_batch_norm_with_update", "_native_batch_norm_legit", "_segment_reduce", "native_batch_norm"}
SIZED |= {"nn.functional.batch_norm", "nn.functional.pdist"}
#: The largest number that operators are called with that take so many steps.
STEEP = 1000
#: Operators that end the program for numbers that are not finite, on the CPU.
FINITE = {"linalg.eigvals"}
#: Operators whose gradients end the program for NaN, on the CPU.
NUMBERED = {"grid_sampler_2d", "nn.functional.grid_sample"}
#: Operators that work element by element, beside those of PyTorch's classes for them.
POINTWISE = {f"nn.functional.{name}" for name in ("gelu", "hardswish", "kl_div", "leaky_relu", "binary_cross_entropy_with_logits")}
POINTWISE |= {f"nn.functional.{name}_loss" for name in ("gaussian_nll", "hinge_embedding", "huber", "l1", "margin_ranking", "mse")}
POINTWISE |= {f"nn.functional.{name}_loss" for name in ("poisson_nll", "smooth_l1", "soft_margin")}
POINTWISE |= {
    "addcdiv",
    "addcmul",
    "clamp",
    "lerp",
    "logaddexp2",
    "masked_fill",
    "nn.functional.binary_cross_entropy",
    "to",
    "where",
}


def _signed(values: list[float]) -> list[float]:
    return [number for value in values for number in (value, -value)]


@functools.cache
def family(name: str, dtype: torch.dtype) -> torch.Tensor:
    """Return the values of a family that a dtype holds; complex ones have them as both parts."""
    if dtype is torch.bool:
        return torch.tensor([False, True])
    if dtype.is_complex:
        parts = family(name, dtype.to_real())
        real, imaginary = (it.flatten() for it in torch.meshgrid(parts, parts, indexing="ij"))
        return torch.view_as_complex(torch.stack((real, imaginary), -1))
    if not dtype.is_floating_point:
        return torch.tensor(_integers(name, dtype), dtype=dtype)
    values = torch.tensor(_floats(name, dtype), dtype=torch.float64)
    # Values that are the same in a narrow dtype stay: they only come more often.
    return values.to(dtype)


def _integers(name: str, dtype: torch.dtype) -> list[int]:
    limits = torch.iinfo(dtype)
    usual = [0, 1, 2, 3, 7, 10, 100] + ([-1, -2, -3, -7, -10, -100] if limits.min < 0 else [])
    root = 1 << (limits.bits // 2)
    large = [limits.max, limits.max - 1, limits.max // 2, limits.max // 2 + 1, root, root + 1, root - 1]
    if limits.min < 0:
        large += [limits.min, limits.min + 1, limits.min // 2, -root]
    return {"usual": usual, "large": large}.get(name, usual + large)


def _floats(name: str, dtype: torch.dtype) -> list[float]:
    limits = torch.finfo(dtype)
    # What has no subnormal numbers has its smallest ones twice.
    least = limits.smallest_normal * limits.eps
    usual = [number for number in NUMBERS if number <= limits.max]
    root = limits.max**0.5
    large = [limits.max, limits.max / 2, limits.max / 3, root * 1.5, root / 1.5]
    # Their products overflow, or not, by far: sums of those that do not are the same in any order.
    squares = [root * 1.5, root / 64, limits.max / 1024]
    tiny = [0.0, least, least * 3, limits.smallest_normal * (1 - limits.eps), limits.smallest_normal, limits.smallest_normal**0.5]
    unit = [0.0, least, limits.smallest_normal, limits.eps, 0.25, 0.5, 1 - limits.eps, 1.0]
    inf, nan = float("inf"), float("nan")
    return {
        "usual": _signed([0.0, *usual]),
        "limits": _signed([1.0, *large]),
        "large": _signed([1.0, *squares]),
        "tiny": _signed([1.0, *tiny]),
        "unit": unit,
        "zeros": [0.0, 0.0, -0.0, 1.0, -1.0],
        "with inf": [inf, *_signed(usual)],
        "with inf and -inf": [inf, -inf, *_signed(usual)],
        "with nan": [nan, *_signed(usual)],
        "all": [*_signed([*tiny, limits.eps, 1 - limits.eps, 1 + limits.eps, *usual, *large, inf]), nan],
    }[name]


@functools.cache
def patterns(dtype: torch.dtype) -> torch.Tensor:
    """Return every value of a narrow dtype, and of a wide one evenly spaced patterns of bits and all its extremes."""
    if dtype.is_complex or dtype is torch.bool:
        return family("all", dtype)
    whole = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    limits, bits = torch.iinfo(whole), dtype.itemsize * 8
    step = max(1, (1 << bits) // PATTERNS + 1) if bits > 16 else 1
    spaced = torch.tensor(list(range(limits.min, limits.max + 1, step)), dtype=whole).view(dtype)
    return torch.cat((spaced.view(whole), family("all", dtype).view(whole))).view(dtype)


#: Smaller tensors, by their names.
SMALLER: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "no rows": lambda value, number: value[:0].clone() if value.dim() else value,
    "no columns": lambda value, number: value[..., :0].clone() if value.dim() else value,
    "one element": lambda value, number: value[(slice(1),) * value.dim()].clone(),
}


@dataclass(frozen=True)
class Case:
    """A call: the family of its values, the form of its other arguments, and its input, positional and named arguments."""

    family: str
    form: str
    given: Any


def is_pointwise(op: Any) -> bool:
    """Return whether each element of an operator's result comes of one element of each argument."""
    return isinstance(op, UnaryUfuncInfo | BinaryUfuncInfo) or op.name in POINTWISE


def _tensors(given: Any) -> list[torch.Tensor]:
    found = {id(leaf): leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, torch.Tensor)}
    return list(found.values())


def _form(given: Any) -> str:
    """Return what tells samples apart beside the tensors' shapes and values."""
    return repr(pytree.tree_map_only(torch.Tensor, lambda it: f"{it.dtype} {it.layout} {it.dim() > 0} {it.numel() > 0}", given))


def _data(op: Any, dtype: torch.dtype, given: Any, other: Any) -> set[int]:
    """Return the tensors, by id, whose values are data, and not positions or sizes: their dtype is the one asked for."""
    if dtype.is_floating_point or dtype.is_complex:
        return {id(it) for it in _tensors(given) if it.is_floating_point() or it.is_complex()}
    mine, theirs = _tensors(given), _tensors(other)
    if other is None:
        return {id(it) for it in mine if it.dtype is dtype}
    if len(mine) != len(theirs):
        return set()
    return {id(one) for one, two in zip(mine, theirs, strict=True) if one.dtype is dtype and one.dtype is not two.dtype}


def _samples(op: Any, dtype: torch.dtype, requires_grad: bool) -> Iterator[tuple[Any, set[int]]]:
    """Yield the first sample of each form, with the tensors of it whose values are data."""
    others: Any = itertools.repeat(None)
    if dtype in (torch.int64, torch.int32):
        second = next((it for it in (torch.int16, torch.uint8, torch.float32) if it in op.supported_dtypes("cpu")), None)
        if second is None:
            return
        others = itertools.chain((arguments(it) for it in op.sample_inputs("cpu", second)), others)
    forms = set()
    for sample, other in zip(op.sample_inputs("cpu", dtype, requires_grad=requires_grad), others, strict=False):
        given = arguments(sample)
        form = _form(given)
        if form not in forms and len(forms) < FORMS:
            forms.add(form)
            yield given, _data(op, dtype, given, other)


def change(given: Any, data: set[int], new: Callable[[torch.Tensor, int], torch.Tensor]) -> Any:
    """Return a call with each of some tensors made anew: of what it was and of its number."""
    numbers = {place: number for number, place in enumerate(dict.fromkeys(id(it) for it in _tensors(given)))}
    made: dict[int, torch.Tensor] = {}

    def changed(value: torch.Tensor) -> torch.Tensor:
        if id(value) not in data or value.layout is not torch.strided or value.is_quantized:
            return value
        if id(value) not in made:
            made[id(value)] = new(value.detach(), numbers[id(value)]).requires_grad_(value.requires_grad)
        return made[id(value)]

    return pytree.tree_map_only(torch.Tensor, changed, given)


def _filled(name: str, value: torch.Tensor, number: int) -> torch.Tensor:
    values = family(name, value.dtype)
    generator = torch.Generator().manual_seed(number)
    picked = torch.randint(len(values), value.shape, generator=generator)
    return torch.empty_like(value).copy_(values[picked]) if len(values) else value.clone()


def _families(op: Any, dtype: torch.dtype) -> list[str]:
    if op.name in FINITE:
        return ["usual", "zeros", "unit"]
    if dtype.is_floating_point or dtype.is_complex:
        limits = ["limits", "all"] if is_pointwise(op) or isinstance(op, ReductionOpInfo) else []
        return ["usual", "large", "tiny", "unit", "zeros", "with inf", "with inf and -inf", "with nan", *limits]
    return ["usual", "large", "all"] if dtype is not torch.bool else []


def _alike(form: str, given: Any, data: set[int]) -> Iterator[Case]:
    """Yield an element-by-element call with every value, with all pairs or triples of extremes, and with single ones."""
    tensors = _tensors(given)
    if not data or len(tensors) > 3 or any(it.layout is not torch.strided for it in tensors):
        return
    every = {id(it) for it in tensors}

    def grid(values: Callable[[torch.dtype], torch.Tensor]) -> Any:
        columns = [values(it.dtype) for it in tensors]
        spread = torch.meshgrid(*(torch.arange(len(it)) for it in columns), indexing="ij")
        return change(given, every, lambda value, number: columns[number][spread[number].flatten()])

    if len(tensors) == 1:
        yield Case("every value", form, grid(patterns))
        return
    most = 160 if len(tensors) == 2 else 24
    for name in ("all", "unit") if len(tensors) == 2 else ("usual", "limits", "tiny", "unit", "with inf and -inf", "with nan"):
        yield Case("pairs", f"{form} {name}", grid(lambda dtype, name=name: thinned(family(name, dtype), most)))


def thinned(values: torch.Tensor, most: int) -> torch.Tensor:
    """Return at most so many values, evenly taken."""
    return values[:: -(-len(values) // most) | 1]


def _single(given: Any, data: set[int]) -> Iterator[Case]:
    """Yield an element-by-element call with tensors without dimensions."""
    if not data:
        return
    every = {id(it) for it in _tensors(given)}

    def picked(value: torch.Tensor, number: int, at: int) -> torch.Tensor:
        values = family("all", value.dtype)
        return values[at * (1 + 2 * number) % len(values)].clone()

    for place in range(SINGLES):
        yield Case("single", str(place), change(given, every, functools.partial(picked, at=place)))


def _with_scalars(op: Any, dtype: torch.dtype, requires_grad: bool) -> Iterator[Case]:
    values = family("all", dtype)
    values = values[::7] if dtype.is_complex else values
    for scalar in SCALARS:
        if not isinstance(op, BinaryUfuncInfo) or not (dtype.is_floating_point or dtype.is_complex or isinstance(scalar, int)):
            continue
        if op.supports_rhs_python_scalar:
            yield Case("numbers", f"tensor, {scalar}", (values.clone().requires_grad_(requires_grad), (scalar,), {}))
        if op.supports_one_python_scalar:
            yield Case("numbers", f"{scalar}, tensor", (scalar, (values.clone().requires_grad_(requires_grad),), {}))


def cases(op: Any, dtype: torch.dtype, *, requires_grad: bool = False) -> Iterator[Case]:
    """Yield the calls of an operator of PyTorch's database with extremes of a dtype; the CPU refuses some of them."""
    if dtype is torch.bcomplex32:
        # PyTorch cannot make them.
        return
    bounds = _bounds(op, dtype)

    def bounded(value: torch.Tensor) -> torch.Tensor:
        if value.dtype is not dtype or value.is_complex():
            return value
        limited = torch.where(value.isinf(), value, value.clamp(*bounds)).detach()
        return limited.requires_grad_(value.requires_grad)

    for case in _cases(op, dtype, requires_grad):
        yield case if bounds is None else Case(case.family, case.form, pytree.tree_map_only(torch.Tensor, bounded, case.given))


def _bounds(op: Any, dtype: torch.dtype) -> tuple[float | None, float | None] | None:
    """Return between which values an operator is called, where the CPU could not bear others."""
    if op.name in DIVIDING and dtype in (torch.int32, torch.int64):
        return torch.iinfo(dtype).min + 1, None
    # Their recurrences take as many steps as the number is large.
    is_slow = "polygamma" in op.name or "_polynomial_" in op.name
    if not is_slow or dtype in (torch.bool, torch.uint8):
        return None
    limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    return max(-STEEP, limits.min), min(STEEP, limits.max)


def _cases(op: Any, dtype: torch.dtype, requires_grad: bool) -> Iterator[Case]:
    for number, (given, data) in enumerate(_samples(op, dtype, requires_grad)):
        form = str(number)
        if is_pointwise(op):
            yield from _alike(form, given, data)
        if is_pointwise(op) and number == 0:
            yield from _single(given, data)
        for name in _families(op, dtype):
            if name == "with nan" and requires_grad and op.name in NUMBERED:
                continue
            yield Case(name, form, change(given, data, functools.partial(_filled, name)))
        for name, smaller in SMALLER.items() if op.name not in SIZED else ():
            yield Case(name, form, change(given, data, smaller))
    yield from _with_scalars(op, dtype, requires_grad)
