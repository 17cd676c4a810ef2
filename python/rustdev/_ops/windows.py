"""Kaiser windows, by a kernel of the operator table."""

from typing import Any

import torch
from torch import Tensor

from .registration import kernel, launch


@kernel("kaiser_window.beta", composite=False)
def kaiser_window(
    window_length: int,
    periodic: bool,
    beta: float,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> Tensor:
    """Return a Kaiser window. The checks are those of PyTorch."""
    wanted = dtype or torch.get_default_dtype()
    if layout not in (None, torch.strided):
        raise RuntimeError(f"kaiser_window is not implemented for sparse types, got: {layout}")
    if not wanted.is_floating_point and not wanted.is_complex:
        raise RuntimeError(f"kaiser_window expects floating point dtypes, got: {wanted}")
    if window_length < 0:
        raise RuntimeError(f"kaiser_window requires non-negative window_length, got window_length={window_length}")
    options: dict[str, Any] = {"dtype": wanted, "device": device, "pin_memory": pin_memory}
    if window_length < 2:
        return torch.ones(window_length, **options)
    length = window_length + int(periodic)
    positions = torch.arange(length, **options)
    window = torch.empty_like(positions)
    launch("kaiser_window", [window], [positions], length, beta)
    return window[:window_length]


@kernel("kaiser_window.periodic", composite=False)
def periodic_kaiser_window(window_length: int, periodic: bool, **options: Any) -> Tensor:
    """Return a Kaiser window with PyTorch's default ``beta``, 12."""
    return kaiser_window(window_length, periodic, 12.0, **options)


@kernel("kaiser_window", composite=False)
def default_kaiser_window(window_length: int, **options: Any) -> Tensor:
    """Return a periodic Kaiser window with ``beta`` 12."""
    return kaiser_window(window_length, True, 12.0, **options)
