"""Comparison of calls on the device with the same calls on the CPU: values for arguments, and comparisons of results."""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import torch
from rustdev_conformance import compare as engine
from rustdev_conformance.compare import CPU as CPU
from rustdev_conformance.compare import faults, precise
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Classes of dtypes.
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
EVERY = [torch.bool, *INTEGERS, *FLOATS, *COMPLEX]

#: A tolerance for all dtypes, or one for each; those that a table leaves out have none.
Tolerance: TypeAlias = "float | dict[torch.dtype, float]"

#: What results of few roundings differ by.
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float32: 1e-6, torch.float64: 1e-12}
TOLERANCE |= {torch.complex64: 1e-6, torch.complex128: 1e-12}
#: The same of sums of up to some thousand numbers.
SUMS = TOLERANCE | {torch.float32: 1e-5, torch.complex64: 1e-5}

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
    """Return a tree with copies of its tensors of the CPU on a device, as those of the conformance kit are made."""
    return engine.copied(tree, device)


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
