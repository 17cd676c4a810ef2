"""Comparison of calls on the device with the same calls on the CPU: values for arguments, and comparisons of results."""

from __future__ import annotations

import copy
import functools
import itertools
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import torch
from torch.nn.parameter import UninitializedTensorMixin
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Classes of dtypes.
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
EVERY = [torch.bool, *INTEGERS, *FLOATS, *COMPLEX]
#: As an argument of a compared function: the device that it is called on.
CPU = torch.device("cpu")

#: A tolerance for all dtypes, or one for each; those that a table leaves out have none.
Tolerance: TypeAlias = "float | dict[torch.dtype, float]"

#: What results of few roundings differ by.
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float32: 1e-6, torch.float64: 1e-12}
TOLERANCE |= {torch.complex64: 1e-6, torch.complex128: 1e-12}
#: The same of sums of up to some thousand numbers.
SUMS = TOLERANCE | {torch.float32: 1e-5, torch.complex64: 1e-5}

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

#: What tensors that are not dense are made of.
PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
}


def make_tensor(
    shape: tuple[int, ...], dtype: torch.dtype, *, seed: int = 0, whole: int | None = None, special: bool = False
) -> torch.Tensor:
    """Return a tensor of the CPU with normal numbers, or with whole ones where the dtype has no others.

    Args:
        shape: its sizes.
        dtype: its dtype.
        seed: of the numbers.
        whole: the greatest magnitude of whole numbers, for floats too: sums of them are exact, and many are equal.
        special: whether NaN, infinities and negative zeros are in the place of some whole numbers of a float dtype.
    """
    if dtype.is_complex:
        return torch.view_as_complex(make_tensor((*shape, 2), dtype.to_real(), seed=seed, whole=whole, special=special))
    generator = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.randint(2, shape, generator=generator).bool()
    if whole is None and dtype.is_floating_point:
        numbers = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    else:
        limit = 5 if whole is None else whole
        numbers = torch.randint(-limit if dtype.is_signed else 0, limit + 1, shape, generator=generator).to(dtype)
    if special and dtype.is_floating_point:
        for number, other in ((3, torch.nan), (4, -0.0), (5, torch.inf), (6, -torch.inf)):
            numbers[numbers == number] = other
    return numbers


def copied(tree: Any, device: str = "rustdev") -> Any:
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


def layouts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield a tensor as it is, with gaps between its elements, with its last dimensions exchanged in memory, with channels last."""
    yield tensor
    if tensor.dim() == 0:
        return
    gaps = torch.cat([tensor, tensor], -1)[..., ::2]
    yield gaps.copy_(tensor)
    if tensor.dim() > 1:
        yield tensor.mT.contiguous().mT
    if tensor.dim() in (4, 5):
        yield tensor.to(memory_format=torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d)


def assert_same(
    found: Any,
    expected: Any,
    *,
    rtol: Tolerance = 0.0,
    atol: Tolerance | None = None,
    signs: bool = True,
    of_greatest: bool = False,
    exact: Callable[[float, int], Any] | None = None,
) -> None:
    """Compare results of the device with the CPU's: dtypes, layouts, sizes, strides and values, where NaN is equal to NaN.

    Args:
        found: tensors of the device and anything else, in tuples, lists or dicts.
        expected: the same of the CPU.
        rtol: the relative tolerance.
        atol: the absolute tolerance; the relative one if left out.
        signs: whether those of zeros count.
        of_greatest: whether the absolute tolerance is relative to the greatest of each result, if that is above 1.
        exact: as of ``faults``, where results that are further apart are right if they are no worse than the CPU's.
    """
    for place, (one, other) in enumerate(zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True)):
        if isinstance(other, torch.device):
            continue
        if not isinstance(other, torch.Tensor):
            assert type(one) is type(other), (one, other)
            assert one is other or one == other, (one, other)
            continue
        assert one.device.type == "rustdev", one.device
        assert kind(one) == kind(other), (kind(one), kind(other))
        parts, wanted = (parts_of(it.detach()) for it in (one, other))
        if parts:
            assert_same(parts, wanted, rtol=rtol, atol=atol, signs=signs)
            continue
        relative, absolute = (
            it.get(other.dtype, 0.0) if isinstance(it, dict) else it for it in (rtol, rtol if atol is None else atol)
        )
        mine, theirs = (comparable(it.detach().cpu()) for it in (one, other))
        if of_greatest and theirs.numel() and theirs.dtype is not torch.bool:
            absolute *= max(1.0, float(theirs.double().nan_to_num(0.0, 0.0, 0.0).abs().max()))
        try:
            torch.testing.assert_close(mine, theirs, rtol=relative, atol=absolute, equal_nan=True)
        except AssertionError:
            nth = exact and (lambda eps, seed, at=place: pytree.tree_leaves(exact(eps, seed))[at])
            unit = lambda size, rtol=relative, atol=absolute: rtol * size + atol  # noqa: E731
            if nth is None or bool(faults(one.detach().cpu(), other.detach(), nth, unit=unit).any()):
                raise
        if signs and theirs.is_floating_point():
            zeros = (mine == 0) & (theirs == 0)
            assert torch.equal(mine.signbit() & zeros, theirs.signbit() & zeros), "signs of zeros"


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


def assert_near(found: Any, exact: Any, rtol: float) -> None:
    """Compare results of the device with those of the same numbers in float64, relative to each and to the greatest."""
    for one, other in zip(pytree.tree_leaves(found), pytree.tree_leaves(exact), strict=True):
        assert one.device.type == "rustdev", one.device
        greatest = float(other.detach().abs().max()) if other.numel() else 0.0
        torch.testing.assert_close(one.detach().cpu().double(), other.detach(), rtol=rtol, atol=rtol * greatest)


def kind(tensor: torch.Tensor) -> tuple[object, ...]:
    """Return what is compared of a tensor beside its numbers."""
    told: tuple[object, ...] = tensor.dtype, tensor.layout
    if tensor.is_nested:
        return told
    if tensor.is_quantized:
        return *told, tensor.shape, tensor.qscheme()
    if tensor.layout is torch.sparse_coo:
        return *told, tensor.shape, tensor.is_coalesced()
    return (*told, tensor.shape, tensor.stride()) if tensor.layout is torch.strided else (*told, tensor.shape)


def parts_of(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the dense tensors that one of another kind is made of; nothing for a dense one."""
    if tensor.is_nested:
        return list(tensor.unbind())
    if tensor.is_quantized:
        return [tensor.int_repr(), tensor.dequantize()]
    # PyTorch leaves indices where they were made, in a part of more memory or not.
    return [getattr(tensor, part)().clone(memory_format=torch.contiguous_format) for part in PARTS.get(tensor.layout, ())]


def comparable(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the CPU in a dtype that PyTorch compares, complex numbers as pairs."""
    if tensor.is_complex():
        wide = tensor.to(torch.complex64) if tensor.dtype is torch.complex32 else tensor
        return torch.view_as_real(wide.resolve_conj())
    return tensor.float() if tensor.is_floating_point() and tensor.itemsize == 1 else tensor.resolve_neg()


def shared(one: Any, other: Any) -> tuple[bool, int | None]:
    """Return whether a result is an argument, and from where a view of it begins in memory that both have."""
    tensors = [it for it in (one, other) if isinstance(it, torch.Tensor) and it.layout is torch.strided and not it.is_nested]
    storages = {it.untyped_storage()._cdata for it in tensors}
    return one is other, one.storage_offset() if len(tensors) == 2 and len(storages) == 1 and one.numel() else None


def compare(function: Callable[..., Any], *arguments: Any, no_worse: bool = False, **tolerances: Any) -> None:
    """Call a function on both devices, and compare its results, which are arguments or views of them, and what it leaves of these.

    Args:
        function: what is called.
        arguments: for the CPU; the device gets copies of their tensors.
        no_worse: whether results are right, too, that are no further from those of wider dtypes than the CPU's.
        tolerances: and further arguments of ``assert_same``.
    """

    def run(device: str) -> tuple[Any, ...]:
        given = copied(arguments, device)
        results = function(*given)
        return results, given, [[shared(one, other) for other in pytree.tree_leaves(given)] for one in pytree.tree_leaves(results)]

    def exact(eps: float, seed: int) -> Any:
        given = precise(arguments, eps, seed)
        return function(*given), given

    expected = run("cpu")
    assert_same(run("rustdev"), expected, exact=exact if no_worse else None, **tolerances)


def compare_gradients(function: Callable[..., Any], *arguments: Any, **tolerances: Any) -> None:
    """Call a function or a module on both devices, and compare its results and the gradients of its arguments and parameters.

    The gradients of the results are odd numbers of 1/32, none of them 0: those of an operator that moves elements are exact.

    Args:
        function: what is called.
        arguments: for the CPU; those of float dtypes get gradients.
        tolerances: and further arguments of ``assert_same``.
    """

    def run(device: str) -> tuple[Any, ...]:
        called = copy.deepcopy(function).to(device) if isinstance(function, torch.nn.Module) else function
        given = copied(arguments, device)
        leaves = [it for it in pytree.tree_leaves(given) if isinstance(it, torch.Tensor) and it.is_floating_point()]
        for leaf in leaves:
            leaf.requires_grad_()
        results = called(*given)
        leaves += called.parameters() if isinstance(called, torch.nn.Module) else []
        outputs = [it for it in pytree.tree_leaves(results) if isinstance(it, torch.Tensor) and it.requires_grad]
        grads = [
            make_tensor(it.shape, it.dtype, seed=seed, whole=9).mul(2).add(1).div(32).to(device) for seed, it in enumerate(outputs)
        ]
        return results, torch.autograd.grad(outputs, leaves, grads)

    expected = run("cpu")
    assert_same(run("rustdev"), expected, **tolerances)


def compare_outcomes(function: Callable[..., Any], *arguments: Any, **tolerances: Any) -> None:
    """Call a function on both devices, and compare its results, or the types of the errors of its call or of its tasks."""

    def run(device: str) -> Any:
        try:
            results = function(*copied(arguments, device))
            torch.rustdev.synchronize()
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            return type(error).__name__
        return results

    expected, found = run("cpu"), run("rustdev")
    if isinstance(expected, str) or isinstance(found, str):
        assert isinstance(expected, str), f"the device alone refuses: {found}"
        assert found == expected
    else:
        assert_same(found, expected, **tolerances)


def compare_errors(function: Callable[..., Any], *arguments: Any, text: bool = True) -> None:
    """Call a function on both devices, and compare the types of the errors that it raises, and their text."""
    with pytest.raises((RuntimeError, TypeError, ValueError, IndexError)) as expected:
        function(*copied(arguments, "cpu"))
    with pytest.raises(type(expected.value)) as found:
        function(*copied(arguments, "rustdev"))
    assert type(found.value) is type(expected.value)
    assert not text or str(found.value) == str(expected.value)


def exact_gradients(
    function: Callable[..., torch.Tensor], given: list[torch.Tensor | None], exact: Callable[..., torch.Tensor] | None = None
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return a function's result and gradients for tensors of the device, and those of the same numbers in float64 on the CPU.

    Args:
        function: what is called.
        given: floating-point tensors, or nothing for those that are left out.
        exact: what is called with the numbers in float64; the function if left out.
    """
    mine = [None if it is None else it.detach().requires_grad_() for it in given]
    wide = [None if it is None else it.detach().cpu().double().requires_grad_() for it in given]
    expected, found = (exact or function)(*wide), function(*mine)
    grad = torch.randn(expected.shape).to(found.dtype)
    found.backward(grad.to("rustdev"))
    expected.backward(grad.double())
    return tuple(  # type: ignore[return-value]
        [result, *(it.grad for it in leaves if it is not None)] for result, leaves in ((found, mine), (expected, wide))
    )


def assert_any_threads(call: Callable[[], Any]) -> None:
    """Assert that a call's results have the same bits for any number of threads of the device."""
    before, results = torch.rustdev.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.rustdev.set_num_threads(threads)
            results.append([it.detach().cpu() for it in pytree.tree_leaves(call())])
    finally:
        torch.rustdev.set_num_threads(before)
    for one, other in itertools.chain(*(zip(results[0], others, strict=True) for others in results[1:])):
        torch.testing.assert_close(other, one, rtol=0, atol=0, equal_nan=True)
