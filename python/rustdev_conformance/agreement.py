"""Comparison of the results of a call on a device with those of the CPU."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.testing._comparison import get_tolerances
from torch.utils import _pytree as pytree

from rustdev_conformance.compare import faults


def comparable(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor on the CPU, in a dtype that PyTorch compares."""
    host = tensor.detach().cpu()
    if host.is_floating_point() and host.itemsize == 1:
        return host.float()
    return host.to(torch.complex64) if host.dtype is torch.complex32 else host


def agree(
    found: Any,
    expected: Any,
    device: str,
    exact: Callable[[float, int], list[Any]] = lambda eps, seed: [],
    *,
    tolerance: tuple[float, float] = (0.0, 0.0),
    has_values: bool = True,
    is_unstable: bool = False,
) -> bool:
    """Hold results against the CPU's: structure, devices, dtypes, shapes and values. Return whether strides are the same as well.

    Args:
        found: The device's results.
        expected: The CPU's.
        device: The device's type.
        exact: Returns the leaves of the same results without rounding, as of ``faults``; nothing if there are none.
        tolerance: Relative and absolute tolerance, where these are wider than those of the dtype.
        has_values: Whether values are defined.
        is_unstable: Whether the last result is indices of which several are right.
    """
    mine, theirs = pytree.tree_leaves(found), pytree.tree_leaves(expected)
    assert len(mine) == len(theirs), f"{len(mine)} results, the CPU has {len(theirs)}"
    same_strides = True
    for place, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        if not isinstance(other, torch.Tensor):
            is_same = one == other or (one != one and other != other) or not has_values or isinstance(other, torch.device)
            assert is_same or (isinstance(one, float) and torch.isclose(torch.tensor(one), torch.tensor(other))), (
                f"{one!r}, the CPU has {other!r}"
            )
            continue
        assert isinstance(one, torch.Tensor), f"{type(one).__name__}, the CPU has a tensor"
        assert one.device.type == (device if other.is_cpu else other.device.type), f"the result is on {one.device}"
        kinds = [(it.dtype, it.layout, tuple(it.shape), it.requires_grad) for it in (one, other)]
        assert kinds[0] == kinds[1], f"dtype, layout, shape, requires_grad: {kinds[0]}, the CPU has {kinds[1]}"
        if other.layout is torch.strided and not other.is_nested and other.numel():
            moving = [dim for dim, size in enumerate(other.shape) if size > 1]
            same_strides &= all(one.stride(dim) == other.stride(dim) for dim in moving)
        if has_values and not (is_unstable and place == len(mine) - 1):
            _close(one, other, functools.partial(_result, exact, place), tolerance)
    return same_strides


def _result(exact: Callable[[float, int], list[Any]], place: int, eps: float, seed: int) -> Any:
    results = exact(eps, seed)
    return results[place] if place < len(results) else None


def _close(one: torch.Tensor, other: torch.Tensor, exact: Callable[[float, int], Any], tolerance: tuple[float, float]) -> None:
    one, other = comparable(one), comparable(other)
    usual = get_tolerances(one, other, rtol=None, atol=None)
    rtol, atol = (max(pair) for pair in zip(usual, tolerance, strict=True))
    try:
        torch.testing.assert_close(one, other, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError:
        is_dense = other.layout is torch.strided and not other.is_quantized and not other.is_nested
        if not is_dense or bool(faults(one, other, exact, unit=lambda size: rtol * size + atol).any()):
            raise
