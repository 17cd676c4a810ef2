"""What automatic mixed precision asks of a device."""

import torch

__all__ = ["get_amp_supported_dtype", "is_autocast_available"]


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the dtypes that ``torch.autocast("rustdev", dtype=...)`` takes."""
    return [torch.bfloat16, torch.float16]


def is_autocast_available() -> bool:
    """Return whether autocast works on the device."""
    return torch.amp.is_autocast_available("rustdev")
