"""Comparison of calls on a device with the same calls on the CPU: arguments, gradients, and how far results may differ."""

import contextlib
import copy
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]
from torch.utils import _pytree as pytree

#: As an argument of a compared function: the device that it is called on.
CPU = torch.device("cpu")
#: The dtypes of the same call without rounding, as far as it can be had.
PRECISE = dict.fromkeys((torch.float16, torch.bfloat16, torch.float32), torch.float64)
PRECISE |= dict.fromkeys((torch.complex32, torch.complex64), torch.complex128)
#: Units in the last place by which equal results may differ: PyTorch's relative tolerances.
STEPS = {torch.float16: 2.0, torch.bfloat16: 2.0, torch.float32: 16.0, torch.float64: 4.5e8}
#: Tolerance of sums in the widest dtypes, relative to the largest of the results and to 1.
WIDEST = 1e-7
#: How often inputs are moved by rounding errors, to see what these do to the result.
NUDGES = 8
#: Factor by which the error may exceed the CPU's worst where rounding explains it: equally good algorithms differ by as much.
LUCK = 4
#: Operators whose last result says where elements were: a stable sort names one of equal elements, others name any of them.
UNSTABLE_INDICES = {"argsort", "kthvalue", "mode", "sort", "topk"}
#: Results without defined values.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}


def arguments(sample: Any) -> tuple[Any, Any, Any]:
    """Return a sample as one tree."""
    return sample.input, sample.args, sample.kwargs


def tensors(tree: Any) -> list[torch.Tensor]:
    """Return the tensors of a tree."""
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def is_plain(value: Any) -> bool:
    """Return whether something is a tensor that has strides and can be copied as it is."""
    is_dense = isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_quantized
    return is_dense and value.is_cpu and not value.is_conj() and not value.is_neg()


def call(op: Any, given: Any, device: str = "cpu", **more: Any) -> Any:
    """Return what an operator makes of a sample's arguments, on a device where they name none."""
    named = any(isinstance(leaf, torch.Tensor | torch.device) for leaf in pytree.tree_leaves((given, more)))
    with contextlib.nullcontext() if named else torch.device(device):
        return op(given[0], *given[1], **given[2], **more)


def gradients(results: Any, given: Any) -> list[torch.Tensor]:
    """Return the gradients of all arguments that take one, for ones as those of the results."""
    leaves = {id(leaf): leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, torch.Tensor) and leaf.requires_grad}
    outputs = [it for it in pytree.tree_leaves(results) if isinstance(it, torch.Tensor) and it.requires_grad]
    if not leaves or not outputs:
        return []
    found = torch.autograd.grad(outputs, list(leaves.values()), [torch.ones_like(it) for it in outputs], allow_unused=True)
    return [grad for grad in found if grad is not None]


def gradient(op: Any, given: Any) -> list[torch.Tensor]:
    """Return the gradients of an operator's call."""
    return gradients(call(op, given), given)


def describe(tree: Any) -> str:
    """Return the sizes and strides of a tree's tensors, and everything else as it is."""

    def told(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.layout is not torch.strided:
            return f"{value.layout} {tuple(value.shape)}"
        return f"{str(value.dtype)[6:]}{list(value.shape)}:{list(value.stride())}+{value.storage_offset()}"

    return str(pytree.tree_map(told, tree)).replace("'", "")[:300]


def copied(tree: Any, device: str) -> Any:
    """Return a tree with copies of its tensors of the CPU on a device, with their strides and all of their memory.

    A tensor that occurs twice is copied once, and views of one memory stay views of one memory. Devices in the tree are replaced by
    that device, and modules are copied to it.
    """
    made: dict[int, torch.Tensor] = {}
    memories: dict[tuple[int, torch.dtype], torch.Tensor] = {}

    def moved(value: torch.Tensor) -> torch.Tensor:
        plain = value.detach()
        is_made = not isinstance(value, UninitializedTensorMixin)
        if not is_made or plain.layout is not torch.strided or plain.is_quantized or plain.is_nested:
            return plain.to(device, copy=True)
        storage = plain.untyped_storage()
        key = storage.data_ptr() or id(value), plain.dtype
        if key not in memories:
            memories[key] = torch.empty(0, dtype=plain.dtype, device="cpu").set_(storage).to(device, copy=True)
        view = memories[key].as_strided(plain.size(), plain.stride(), plain.storage_offset())
        view = view.conj() if plain.is_conj() else view
        return torch._neg_view(view) if plain.is_neg() else view

    def one(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) not in made:
                made[id(value)] = moved(value).requires_grad_(value.requires_grad) if value.is_cpu else value
            return made[id(value)]
        if isinstance(value, torch.nn.Module):
            return copy.deepcopy(value).to(device)
        return torch.device(device) if isinstance(value, str | torch.device) and value in ("cpu", CPU) else value

    return pytree.tree_map(one, tree)


def precise(tree: Any, eps: float = 0.0, seed: int = 0) -> Any:
    """Return copies of a tree's tensors in the widest dtype, and arguments that name a dtype likewise.

    Every number is moved by at most ``eps`` of itself; which way, the seed says.
    """
    made: dict[int, torch.Tensor] = {}
    generator = torch.Generator().manual_seed(seed)

    def widened(value: torch.Tensor) -> torch.Tensor:
        wide = value.detach().to(PRECISE.get(value.dtype, value.dtype), copy=True)
        if eps and wide.layout is torch.strided and (wide.is_floating_point() or wide.is_complex()):
            wide = wide * (1 + eps * (2 * torch.rand(wide.shape, generator=generator, dtype=torch.float64) - 1))
        return wide.requires_grad_(value.requires_grad)

    def one(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return made[id(value)] if id(value) in made else made.setdefault(id(value), widened(value))
        if isinstance(value, torch.nn.Module):
            return copy.deepcopy(value).double()
        return PRECISE.get(value, value) if isinstance(value, torch.dtype) else value

    return pytree.tree_map(one, tree)


def same(one: torch.Tensor, other: torch.Tensor, *, signs: bool = False) -> torch.Tensor:
    """Return where two tensors have the same numbers, or are both NaN; zeros have signs where these count."""
    if one.is_complex():
        mine, theirs = (torch.view_as_real(it.resolve_conj().resolve_neg()) for it in (one, other))
        either = (one.isinf() & other.isinf()) | (one.isnan() & other.isnan())
        # A complex number with a part that is NaN is NaN, and one with an infinite part is the infinity: C99's Annex G.
        return same(mine, theirs, signs=signs).all(-1) | either & ((mine == theirs) | mine.isnan() | theirs.isnan()).all(-1)
    if not one.is_floating_point():
        return one == other
    # The CPU has few operators for floats of 8 bits.
    one, other = (it.float() if it.itemsize == 1 else it for it in (one, other))
    alike = (one == other) | (one.isnan() & other.isnan())
    return alike & ((one != 0) | (one.signbit() == other.signbit())) if signs else alike


def steps(magnitude: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return how far apart numbers of a real dtype may be about magnitudes, that are given in a wider one."""
    limits = torch.finfo(dtype)
    _, exponent = torch.frexp(magnitude.clamp(limits.smallest_normal, limits.max))
    return torch.exp2(exponent.double() - 1) * limits.eps * STEPS[dtype]


def faults(
    one: torch.Tensor,
    other: torch.Tensor,
    exact: Callable[[float, int], Any],
    *,
    unit: Callable[[torch.Tensor], torch.Tensor] | None = None,
    pointwise: bool = False,
    signs: bool = False,
    overflowing: bool = False,
) -> torch.Tensor:
    """Return where a result of the device is worse than the CPU's.

    That is where it is further from the exact one than a unit, and than the CPU's: in the same place where operators work element
    by element, else in its worst. Errors that roundings of the inputs explain are let pass as well. Distances count in units, so
    that a bad large value excuses no bad small one.

    Args:
        one: the device's result, on the CPU.
        other: the CPU's.
        exact: returns what ``precise`` makes of the call, for some movement of its inputs and a seed.
        unit: the tolerance of numbers of some magnitudes; some steps of the dtype if left out, so that small numbers count as much
            as large ones.
        pointwise: whether the operator works element by element.
        signs: whether signs of zeros count.
        overflowing: whether sums and products may overflow on their way, by the order of their terms and by fused multiply-add: all
            that is not finite is the same then.
    """
    wrong = ~same(one, other, signs=signs)
    if overflowing and not pointwise:
        wrong &= one.isfinite() | other.isfinite()
    real, wide = one.dtype.to_real() if one.is_complex() else one.dtype, PRECISE.get(one.dtype, one.dtype)
    if not bool(wrong.any()) or not (unit or real in STEPS) or not (one.is_floating_point() or one.is_complex()):
        return wrong
    size = unit or functools.partial(steps, dtype=real)

    def apart(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        if one.is_complex():
            # Parts that are the same infinity, or NaN in both, leave the other parts to be compared.
            parts = [torch.view_as_real(it.resolve_conj().resolve_neg()) for it in (one, other)]
            alike = ~parts[1].isfinite() & same(*parts)
            one, other = (torch.view_as_complex(it.masked_fill(alike, 0.0)) for it in parts)
        return (one - other).abs() / size(other.abs())

    def other_signs(other: torch.Tensor) -> torch.Tensor:
        return ~same(one, other, signs=True) & same(one, other) if signs and not one.is_complex() else torch.zeros_like(wrong)

    mine, theirs = one.to(wide), other.to(wide)
    wrong &= ~(apart(mine, theirs) <= 1.0) | other_signs(other)
    if unit is None and one.dtype not in PRECISE:
        largest = theirs.abs().nan_to_num(0.0, posinf=0.0).amax().clamp(min=1.0)
        return wrong if pointwise else wrong & ~((mine - theirs).abs() <= WIDEST * (theirs.abs() + largest))
    reference = exact(0.0, 0) if bool(wrong.any()) else None
    if not isinstance(reference, torch.Tensor) or reference.shape != one.shape or reference.dtype is not wide:
        return wrong
    reference = reference.detach()
    rounded = reference.to(one.dtype)
    off, usual = apart(mine, rounded.to(wide)), apart(theirs, rounded.to(wide))
    # Where the CPU's is NaN and the exact one is not, only extreme values excuse a number (`unit` is left out).
    bound = usual.nan_to_num(0.0 if unit else torch.inf, posinf=torch.inf)
    wrong &= ~(same(one, rounded, signs=signs) | (off <= 1.0) | (off <= bound)) | other_signs(rounded)
    worst = usual.nan_to_num(0.0, posinf=0.0).amax()
    if not pointwise:
        wrong &= ~(off <= worst)
    # In 16 bits, what roundings of the inputs do is so much that it would explain any error of a tail.
    if (real.itemsize < 4 and pointwise) or not bool(wrong.any()):
        return wrong
    eps = torch.finfo(one.dtype).eps
    moved = torch.stack([apart(exact(eps, seed).to(wide), reference) for seed in range(NUDGES)]).nan_to_num(0.0).amax(0)
    most = LUCK * worst.clamp(min=1.0) if unit else torch.inf
    return wrong & ~((off <= 1.0 + (1 if pointwise else LUCK) * moved) & (off <= most))


def outcome(run: Callable[[], Any], synchronize: Callable[[], Any] = torch.accelerator.synchronize) -> tuple[Any, Exception | None]:
    """Return a call's result, or its exception."""
    try:
        result = run()
        synchronize()
    except Exception as refusal:
        # A call that is refused at last may have left tasks that fail.
        with contextlib.suppress(RuntimeError):
            synchronize()
        return None, refusal
    return result, None
