"""Named GPUs that the devices can imitate: by ``RUSTDEV_PROFILE``, or in ``rustdev.as_cuda(profile=...)``."""

from typing import NamedTuple

from . import _rustdev

__all__: list[str] = []


class _Profile(NamedTuple):
    """What a program may ask of a GPU before it decides what to do.

    Attributes:
        name: What the GPU calls itself.
        capability: The compute capability.
        memory: Bytes.
    """

    name: str
    capability: tuple[int, int]
    memory: int

    @property
    def has_bfloat16(self) -> bool:
        """Whether the GPU computes with bfloat16 by itself."""
        return self.capability >= (8, 0)


_PROFILES = {name: _Profile(gpu, capability, memory) for name, gpu, capability, memory in _rustdev.profiles()}


def _profile(name: str) -> _Profile:
    """Return the profile of a name.

    Raises:
        ValueError: There is none.
    """
    if name not in _PROFILES:
        raise ValueError(f"there is no profile {name!r}; there are {', '.join(_PROFILES)}")
    return _PROFILES[name]


def _imitated() -> _Profile | None:
    """Return the profile that ``RUSTDEV_PROFILE`` names."""
    name = _rustdev.profile()
    return None if name is None else _PROFILES[name]
