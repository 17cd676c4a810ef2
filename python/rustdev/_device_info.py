"""Figures of the profiles for PyTorch's own estimates: ``torch._inductor.analysis.device_info``."""

from types import ModuleType

import torch

from . import _rustdev
from ._imports import _after_import
from ._profiles import _PROFILES
from .device import _name_of

#: The dtypes of PyTorch that compute at the rate of a profile's entry.
_DTYPES: dict[str, tuple[torch.dtype | str, ...]] = {
    "float64": (torch.float64,),
    "tf32": ("torch.tf32",),
    "float32": (torch.float32,),
    "bfloat16": (torch.bfloat16,),
    "float16": (torch.float16,),
    "float8": (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz),
    "int8": (torch.int8,),
}


def _add_profiles(module: ModuleType) -> None:
    """Register every profile that PyTorch does not know by its GPU's name, and this device by its own name."""
    if not hasattr(module, "register_device_info"):  # before torch 2.15
        return
    imitated = _rustdev.profile()
    for name, profile in _PROFILES.items():
        tops = {dtype: rate for key, rate in profile.rates.items() for dtype in _DTYPES[key]}
        info = module.DeviceInfo(tops=tops, dram_bw_gbs=profile.bandwidth, dram_gb=profile.memory / (1 << 30))
        if module.lookup_device_info(profile.name) is None:
            module.register_device_info(profile.name, info)
        if name == imitated:
            module.register_device_info(_name_of(profile), info)


def _install() -> None:
    """Register the figures when PyTorch loads its table."""
    _after_import("torch._inductor.analysis.device_info", _add_profiles)
