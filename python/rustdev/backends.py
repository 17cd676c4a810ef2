"""``torch.backends.rustdev``: what of ``torch.backends.cuda`` and its siblings means something here.

The switches of scaled_dot_product_attention are those of ``torch.backends.cuda``, which PyTorch keeps once for all devices;
``torch.nn.attention.sdpa_kernel`` sets the same ones.
"""

from typing import TYPE_CHECKING, NoReturn

from torch.backends.cuda import enable_flash_sdp, enable_math_sdp, flash_sdp_enabled, math_sdp_enabled

from . import _rustdev
from ._absent import _refuse
from .device import is_available

__all__ = ["enable_flash_sdp", "enable_math_sdp", "flash_sdp_enabled", "is_available", "is_built", "math_sdp_enabled", "version"]


def is_built() -> bool:
    """Return whether the device's code is there: always, where this module can be imported."""
    return True


def version() -> str:
    """Return the version of rustdev."""
    return _rustdev.__version__


if not TYPE_CHECKING:  # a type checker would take every name for one that is there

    def __getattr__(name: str) -> NoReturn:
        _refuse("torch.backends.rustdev", name)
