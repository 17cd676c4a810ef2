"""Operator coverage: the tier of each operator, and the rules and statistics of the CPU fallback."""

import functools
from collections.abc import Iterable
from typing import Literal, NamedTuple

import torch

from . import _rustdev
from ._ops.registration import composites

__all__ = [
    "FallbackStat",
    "KernelCalls",
    "coverage",
    "fallback_allowlist",
    "fallback_blocklist",
    "fallback_mode",
    "fallback_stats",
    "hardware_kernels",
    "op_calls",
    "reset_fallback_stats",
    "set_fallback_allowlist",
    "set_fallback_blocklist",
    "set_fallback_mode",
]

Tier = Literal["rust", "aten", "fallback", "composite"]
Mode = Literal["allow", "warn", "error"]

_MODES: tuple[Mode, ...] = ("allow", "warn", "error")
_COMPOSITE_KEYS = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


class FallbackStat(NamedTuple):
    """Statistics of one operator's fallback.

    Attributes:
        calls: Number of calls of the CPU kernel.
        seconds: Total time of these calls.
    """

    calls: int
    seconds: float


class KernelCalls(NamedTuple):
    """Calls of one kernel on hardware with kernels of its own.

    Attributes:
        hardware: Number of calls that the hardware's kernel computed.
        processor: Number of calls that rustdev's kernel computed, because the hardware has no kernel, or not for these operands.
    """

    hardware: int
    processor: int


def hardware_kernels() -> dict[str, KernelCalls]:
    """Return how many calls of each kernel the hardware and the processor have computed, by the kernel's name.

    The dictionary is empty without hardware that runs its tasks by ``rustdev::hardware_kernels`` (docs/own-backend.md).
    """
    return {name: KernelCalls(*calls) for name, *calls in _rustdev.hardware_kernels()}


def coverage() -> dict[str, Tier | None]:
    """Return the tier that serves each PyTorch operator on the device.

    Returns:
        The tier of every ``aten::`` operator, by name: ``"rust"`` (a kernel of the operator table, or the runtime), ``"aten"``
        (PyTorch's own code on device memory; if it computes, on the device's streams), ``"fallback"`` (PyTorch's CPU kernel on
        aliases of the same memory), ``"composite"`` (made of other operators), or None (not supported).
    """
    tiers: dict[str, Tier] = {**torch.ops.rustdev._operator_tiers(), **dict.fromkeys(composites, "composite")}
    names = sorted(name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::"))
    return {name: tiers.get(name) or _dispatched_tier(name) for name in names}


def _dispatched_tier(name: str) -> Tier | None:
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    if has_kernel(name, "PrivateUse1"):
        return "rust"
    if any(has_kernel(name, key) for key in _COMPOSITE_KEYS):
        return "composite"
    return None


def fallback_stats() -> dict[str, FallbackStat]:
    """Return the statistics of operators that fell back since the start or the last :func:`reset_fallback_stats`, slowest first."""
    stats = {name: FallbackStat(calls, nanoseconds * 1e-9) for name, calls, nanoseconds in _rustdev.fallback_stats()}
    return dict(sorted(stats.items(), key=lambda item: -item[1].seconds))


def reset_fallback_stats() -> None:
    """Reset the statistics of :func:`fallback_stats`."""
    _rustdev.reset_fallback_stats()


def fallback_mode() -> Mode:
    """Return the fallback mode; see :func:`set_fallback_mode`. The variable ``RUSTDEV_FALLBACK`` sets its initial value."""
    return _MODES[_rustdev.fallback_mode()]


def set_fallback_mode(mode: Mode) -> None:
    """Set what happens when an operator falls back to the CPU.

    Args:
        mode: ``"allow"`` runs the CPU kernel, ``"warn"`` runs it with a warning, ``"error"`` raises NotImplementedError.

    Raises:
        ValueError: If ``mode`` is none of these.
    """
    if mode not in _MODES:
        raise ValueError(f"the fallback mode is one of {', '.join(_MODES)}, not {mode!r}")
    _rustdev.set_fallback_mode(_MODES.index(mode))


def set_fallback_blocklist(operators: Iterable[str]) -> None:
    """Set the operators that never fall back. The list replaces the previous one.

    Args:
        operators: Names such as ``"aten::sort"`` or ``"sort"`` (all overloads), or ``"aten::sort.stable"`` (one overload).

    Raises:
        ValueError: If there is no such operator.
    """
    _rustdev.set_fallback_list(False, _full_names(operators))


def set_fallback_allowlist(operators: Iterable[str]) -> None:
    """Set the operators that may fall back in every mode, without a warning. The list replaces the previous one.

    Args:
        operators: As for :func:`set_fallback_blocklist`. The blocklist takes precedence.

    Raises:
        ValueError: If there is no such operator.
    """
    _rustdev.set_fallback_list(True, _full_names(operators))


def fallback_blocklist() -> list[str]:
    """Return the operators that never fall back, with their namespace, in alphabetical order."""
    return sorted(_rustdev.fallback_list(False))


def fallback_allowlist() -> list[str]:
    """Return the operators that may fall back in every mode, with their namespace, in alphabetical order."""
    return sorted(_rustdev.fallback_list(True))


def _full_names(operators: Iterable[str]) -> list[str]:
    if isinstance(operators, str):
        operators = [operators]
    names = [name if "::" in name else f"aten::{name}" for name in operators]
    if not names:  # the usual way to reset a list
        return names
    if not _operators().issuperset(names):
        _operators.cache_clear()  # operators can have been defined since
    if unknown := [name for name in names if name not in _operators()]:
        raise ValueError(f"PyTorch has no operator {', '.join(unknown)}")
    return names


@functools.cache
def _operators() -> frozenset[str]:
    """Return the names of all operators, with and without their overloads."""
    return frozenset(name for full in torch._C._dispatch_get_all_op_names() for name in (full, full.partition(".")[0]))


def op_calls() -> dict[str, int]:
    """Return the number of launches of each kernel of the operator table, in the table's order.

    Concurrent launches of one kernel by several threads may be counted as one.
    """
    return dict(_rustdev.op_calls())
