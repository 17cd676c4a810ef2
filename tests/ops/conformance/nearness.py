"""Distance of two results in steps (ulp) of their dtype, so that small numbers count as much as large ones."""

from collections.abc import Callable
from typing import Any

import torch
from against_cpu import LUCK, NUDGES, PRECISE

#: So many steps (units in the last place) apart are the same: PyTorch's relative tolerances.
STEPS = {torch.float16: 2.0, torch.bfloat16: 2.0, torch.float32: 16.0, torch.float64: 4.5e8}
#: Tolerance of sums in the widest dtypes, relative to the largest of the results and to 1.
WIDEST = 1e-7


def same(one: torch.Tensor, other: torch.Tensor, *, signs: bool) -> torch.Tensor:
    """Return where two tensors have the same numbers, or are both NaN; zeros have signs where these count."""
    if one.is_complex():
        mine, theirs = (torch.view_as_real(it.resolve_conj().resolve_neg()) for it in (one, other))
        alike = same(mine, theirs, signs=signs).all(-1)
        either = (one.isinf() & other.isinf()) | (one.isnan() & other.isnan())
        # A complex number with a part that is NaN is NaN, and one with an infinite part is the infinity: C99's Annex G.
        return alike | either & ((mine == theirs) | mine.isnan() | theirs.isnan()).all(-1)
    if not one.is_floating_point():
        return one == other
    if one.itemsize == 1:
        # The CPU has few operators for them.
        one, other = one.float(), other.float()
    alike = (one == other) | (one.isnan() & other.isnan())
    return alike & ((one != 0) | (one.signbit() == other.signbit())) if signs else alike


def step(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return how far apart the numbers of a dtype are about magnitudes, that are given in a wider one."""
    limits = torch.finfo(dtype)
    _, exponent = torch.frexp(value.clamp(limits.smallest_normal, limits.max))
    return torch.exp2(exponent.double() - 1) * limits.eps


def steps(one: torch.Tensor, other: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return how many steps of a real dtype tensors of float64 or complex128 are apart, against the other's magnitude.

    Of complex numbers, parts that are the same infinity, or NaN in both, leave the other parts to be compared.
    """
    if not one.is_complex():
        return (one - other).abs() / step(other.abs(), dtype)
    mine, theirs = (torch.view_as_real(it.resolve_conj().resolve_neg()) for it in (one, other))
    alike = ~theirs.isfinite() & same(mine, theirs, signs=False)
    mine, theirs = (torch.view_as_complex(it.masked_fill(alike, 0.0)) for it in (mine, theirs))
    return (mine - theirs).abs() / step(theirs.abs(), dtype)


def faults(
    one: torch.Tensor,
    other: torch.Tensor,
    exact: Callable[[float, int], Any],
    *,
    pointwise: bool,
    signs: bool,
    overflowing: bool = False,
) -> torch.Tensor:
    """Return where a result of the device is worse than the CPU's.

    That is where it is further from the exact one than some steps, and than the CPU's: in the same place where operators work
    element by element, else in its worst. Errors that roundings of the inputs explain are let pass as well.

    ``exact`` returns what ``precise`` makes of the call, for some movement of its inputs and a seed; ``signs`` says whether signs
    of zeros count. Where sums and products may overflow on their way, by the order of their terms and by fused multiply-add
    (``overflowing``), all that is not finite is the same.
    """
    wrong = ~same(one, other, signs=signs)
    if overflowing and not pointwise:
        wrong &= one.isfinite() | other.isfinite()
    if not bool(wrong.any()) or not (one.is_floating_point() or one.is_complex()):
        return wrong
    real = one.dtype.to_real() if one.is_complex() else one.dtype
    if real not in STEPS:
        return wrong
    wide = torch.complex128 if one.is_complex() else torch.float64
    mine, theirs = one.to(wide), other.to(wide)
    wrong &= ~(steps(mine, theirs, real) <= STEPS[real]) | (_only_signs(one, other) if signs else False)
    if not bool(wrong.any()):
        return wrong
    if one.dtype not in PRECISE:
        largest = theirs.abs().nan_to_num(0.0, posinf=0.0).amax().clamp(min=1.0)
        return wrong if pointwise else wrong & ~((mine - theirs).abs() <= WIDEST * (theirs.abs() + largest))
    reference = exact(0.0, 0)
    if not isinstance(reference, torch.Tensor) or reference.shape != one.shape or reference.dtype is not PRECISE[one.dtype]:
        return wrong
    reference = reference.detach()
    rounded = reference.to(one.dtype)
    wrong &= ~same(one, rounded, signs=signs)
    apart, usual = (steps(it, rounded.to(wide), real) / STEPS[real] for it in (mine, theirs))
    nearer = (apart <= 1.0) | (apart <= usual.nan_to_num(torch.inf))
    wrong &= ~nearer | (_only_signs(one, rounded) if signs else False)
    if not pointwise:
        wrong &= ~(apart <= usual.nan_to_num(0.0, posinf=0.0).amax())
    # In 16 bits, what roundings of the inputs do is so much that it would explain any error of a tail.
    if (real.itemsize < 4 and pointwise) or not bool(wrong.any()):
        return wrong
    eps = torch.finfo(one.dtype).eps
    moved = [steps(exact(eps, seed).to(wide), reference, real) / STEPS[real] for seed in range(NUDGES)]
    return wrong & ~(apart <= 1.0 + (1 if pointwise else LUCK) * torch.stack(moved).nan_to_num(0.0).amax(0))


def is_within_rounding_of_ones(one: torch.Tensor, reference: Any) -> torch.Tensor | bool:
    """Return where a result is as near to the exact one as sums of numbers up to 1 in its dtype can be expected to be."""
    real = one.dtype.to_real() if one.is_complex() else one.dtype
    if real not in STEPS or not isinstance(reference, torch.Tensor) or reference.shape != one.shape:
        return False
    return (one.to(reference.dtype) - reference.detach()).abs() <= LUCK * STEPS[real] * torch.finfo(real).eps


def _only_signs(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return where both are 0 of different signs."""
    if one.is_complex():
        return torch.zeros(one.shape, dtype=torch.bool)
    return (one == 0) & (other == 0) & (one.signbit() != other.signbit())
