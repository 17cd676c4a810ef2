"""Automatic mixed precision: the names of ``torch.cuda.amp``, and what PyTorch asks of a device."""

from collections.abc import Callable
from typing import Any

import torch

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
    """``torch.autocast`` on the device.

    Args:
        enabled: Whether autocast is on in the region.
        dtype: The lower precision.
        cache_enabled: Whether casts of weights are kept to the end of the outermost region.
    """

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> None:
        super().__init__("rustdev", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler`` on the device.

    Args:
        init_scale: The first scale.
        growth_factor: What the scale is multiplied by after ``growth_interval`` steps without infinities.
        backoff_factor: What the scale is multiplied by after a step with infinities.
        growth_interval: Steps between growths.
        enabled: Whether anything is scaled.
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("rustdev", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: torch.dtype | None = None) -> Callable[..., Any]:
    """Decorate the forward of an autograd function with ``torch.amp.custom_fwd`` for the device.

    Args:
        fwd: The forward; None returns a decorator.
        cast_inputs: The dtype that floating tensors are cast to in a region of autocast, which then is off inside.
    """
    decorated: Callable[..., Any] = torch.amp.custom_fwd(fwd, device_type="rustdev", cast_inputs=cast_inputs)
    return decorated


def custom_bwd(bwd: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Decorate the backward of an autograd function with ``torch.amp.custom_bwd`` for the device.

    Args:
        bwd: The backward; None returns a decorator.
    """
    decorated: Callable[..., Any] = torch.amp.custom_bwd(bwd, device_type="rustdev")
    return decorated


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the dtypes that ``torch.autocast("rustdev", dtype=...)`` takes."""
    return [torch.bfloat16, torch.float16]


def is_autocast_available() -> bool:
    """Return whether autocast works on the device."""
    return torch.amp.is_autocast_available("rustdev")


def is_autocast_enabled() -> bool:
    """Return whether this thread is in a region of ``torch.autocast("rustdev")``."""
    return torch.is_autocast_enabled("rustdev")


def set_autocast_enabled(enabled: bool) -> None:
    """Turn autocast on the device on or off for this thread; ``torch.autocast`` does so for a region."""
    torch.set_autocast_enabled("rustdev", enabled)


def get_autocast_dtype() -> torch.dtype:
    """Return the lower precision that autocast on the device casts to."""
    return torch.get_autocast_dtype("rustdev")


def set_autocast_dtype(dtype: torch.dtype) -> None:
    """Set the lower precision that autocast on the device casts to, in this thread."""
    torch.set_autocast_dtype("rustdev", dtype)
