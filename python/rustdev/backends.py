"""``torch.backends.rustdev``: the names of ``torch.backends.cuda`` and similar modules that apply to this device.

The switches of scaled_dot_product_attention are those of ``torch.backends.cuda``: PyTorch has one set of them for all devices.
``torch.nn.attention.sdpa_kernel`` sets the same switches.
"""

from typing import TYPE_CHECKING, NoReturn

from torch.backends.cuda import enable_flash_sdp, enable_math_sdp, flash_sdp_enabled, math_sdp_enabled

from . import _rustdev
from ._absent import _refuse
from ._name import NAME
from .device import is_available

__all__ = ["enable_flash_sdp", "enable_math_sdp", "flash_sdp_enabled", "is_available", "is_built", "math_sdp_enabled", "version"]


def is_built() -> bool:
    """Return True: rustdev is built if this module can be imported."""
    return True


def version() -> str:
    """Return the version of rustdev."""
    return _rustdev.__version__


if not TYPE_CHECKING:  # hidden from type checkers, which would accept every name

    def __getattr__(name: str) -> NoReturn:
        _refuse(f"torch.backends.{NAME}", name)
