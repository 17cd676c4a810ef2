"""What automatic mixed precision asks of a device."""

import torch

__all__ = [
    "get_amp_supported_dtype",
    "get_autocast_dtype",
    "is_autocast_available",
    "is_autocast_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
]


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
