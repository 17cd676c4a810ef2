"""Automatic mixed precision: the names of ``torch.cuda.amp``, and the functions that PyTorch requires of a device module."""

from collections.abc import Callable
from typing import Any

import torch

from ._name import NAME

__all__ = [
    "GradScaler",
    "autocast",
    "custom_bwd",
    "custom_fwd",
    "get_amp_supported_dtype",
    "get_autocast_dtype",
    "is_autocast_available",
    "is_autocast_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
]


class autocast(torch.autocast):  # noqa: N801
    """``torch.autocast`` with ``device_type="rustdev"``.

    Args:
        enabled: Whether autocast is enabled in the region.
        dtype: Lower-precision dtype, ``torch.float16`` or ``torch.bfloat16``.
        cache_enabled: Whether the weight cache is enabled. It keeps casts of weights until the outermost region ends.
    """

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> None:
        super().__init__(NAME, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler`` with ``device="rustdev"``.

    Args:
        init_scale: Initial scale factor.
        growth_factor: Factor of the scale after ``growth_interval`` consecutive steps without inf or NaN gradients.
        backoff_factor: Factor of the scale after a step with inf or NaN gradients.
        growth_interval: Number of consecutive steps without inf or NaN gradients before the scale grows.
        enabled: Whether gradient scaling is enabled.
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__(NAME, init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: torch.dtype | None = None) -> Callable[..., Any]:
    """Decorate the forward of an autograd function with ``torch.amp.custom_fwd`` for the device.

    Args:
        fwd: Forward method. None: return a decorator.
        cast_inputs: If given and autocast is enabled, floating-point tensors are cast to this dtype, and the forward runs with
            autocast disabled.
    """
    decorated: Callable[..., Any] = torch.amp.custom_fwd(fwd, device_type=NAME, cast_inputs=cast_inputs)
    return decorated


def custom_bwd(bwd: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Decorate the backward of an autograd function with ``torch.amp.custom_bwd`` for the device.

    Args:
        bwd: Backward method. None: return a decorator.
    """
    decorated: Callable[..., Any] = torch.amp.custom_bwd(bwd, device_type=NAME)
    return decorated


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the dtypes that ``torch.autocast("rustdev", dtype=...)`` supports: bfloat16 and float16."""
    return [torch.bfloat16, torch.float16]


def is_autocast_available() -> bool:
    """Return whether autocast is available on the device."""
    return torch.amp.is_autocast_available(NAME)


def is_autocast_enabled() -> bool:
    """Return whether autocast on the device is enabled in the calling thread."""
    return torch.is_autocast_enabled(NAME)


def set_autocast_enabled(enabled: bool) -> None:
    """Enable or disable autocast on the device in the calling thread; ``torch.autocast`` does so for a region."""
    torch.set_autocast_enabled(NAME, enabled)


def get_autocast_dtype() -> torch.dtype:
    """Return the lower-precision dtype of autocast on the device."""
    return torch.get_autocast_dtype(NAME)


def set_autocast_dtype(dtype: torch.dtype) -> None:
    """Set the lower-precision dtype of autocast on the device in the calling thread."""
    torch.set_autocast_dtype(NAME, dtype)
