"""Profiles of GPUs that the devices can imitate, by ``RUSTDEV_PROFILE`` or ``rustdev.as_cuda(profile=...)``."""

import sys
from typing import NamedTuple

from . import _rustdev


class _Profile(NamedTuple):
    """Properties of an imitated GPU.

    Attributes:
        name: Device name of the GPU.
        capability: Compute capability, as (major, minor).
        memory: Total memory in bytes.
        bandwidth: Bytes per second of the memory.
        rates: Operations per second of the fastest unit, by dtype.
    """

    name: str
    capability: tuple[int, int]
    memory: int
    bandwidth: float
    rates: dict[str, float]

    @property
    def has_bfloat16(self) -> bool:
        """True if the GPU supports bfloat16 natively."""
        return self.capability >= (8, 0)

    @property
    def has_float8(self) -> bool:
        """True if the GPU multiplies float8."""
        return self.capability >= (8, 9)


_PROFILES = {profile[0]: _Profile(*profile[1:]) for profile in _rustdev.profiles()}


def _profile(name: str) -> _Profile:
    """Return the profile with a name.

    Raises:
        ValueError: If there is no such profile.
    """
    if name not in _PROFILES:
        raise ValueError(f"there is no profile {name!r}; there are {', '.join(_PROFILES)}")
    return _PROFILES[name]


def _imitated() -> _Profile | None:
    """Return the profile named by ``RUSTDEV_PROFILE``; None if it is not set."""
    name = _rustdev.profile()
    return None if name is None else _PROFILES[name]


def _presented() -> _Profile | None:
    """Return the profile of the open scope of ``rustdev.as_cuda``, else that of ``RUSTDEV_PROFILE``; None without either."""
    scopes = sys.modules.get(f"{__package__}._cuda_scope")
    installation = scopes._installation if scopes else None
    return _profile(installation.profile) if installation and installation.profile else _imitated()
