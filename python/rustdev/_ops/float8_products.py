"""Scaled products of float8 on an imitated GPU before capability 8.9, which refuses them."""

import functools
from typing import Any

from .._profiles import _presented
from .registration import _aten, fallback

__all__ = ["refuse_without_float8"]


@functools.cache
def refuse_without_float8() -> None:
    """Have the products ask from now on whether the presented GPU computes with float8."""
    for name in ("_scaled_mm", "_scaled_mm.out", "_scaled_mm_v2", "_scaled_mm_v2.out"):
        _aten.impl(name, functools.partial(_product, fallback(name)), "PrivateUse1", with_keyset=True, allow_override=True)


def _product(compute: Any, *args: Any, **kwargs: Any) -> Any:
    profile = _presented()
    if profile and not profile.has_float8:
        has = ".".join(map(str, profile.capability))
        raise RuntimeError(f"torch._scaled_mm is only supported from compute capability 8.9 on, and {profile.name} has {has}")
    return compute(*args, **kwargs)
