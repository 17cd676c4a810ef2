"""Named GPUs, as which the device presents itself in ``rustdev.as_cuda(profile=...)``."""

from typing import NamedTuple

__all__: list[str] = []


class _Profile(NamedTuple):
    """What a program may ask of a GPU before it decides what to do.

    Attributes:
        name: In ``torch.cuda.get_device_name()``, followed by the device's own.
        capability: The compute capability.
        memory: Bytes.
    """

    name: str
    capability: tuple[int, int]
    memory: int


_GIB = 1 << 30
_PROFILES = {
    "t4-16g": _Profile("Tesla T4", (7, 5), 16 * _GIB),
    "v100-16g": _Profile("Tesla V100-SXM2-16GB", (7, 0), 16 * _GIB),
    "a100-40g": _Profile("NVIDIA A100-SXM4-40GB", (8, 0), 40 * _GIB),
    "a100-80g": _Profile("NVIDIA A100-SXM4-80GB", (8, 0), 80 * _GIB),
    "l4-24g": _Profile("NVIDIA L4", (8, 9), 24 * _GIB),
    "rtx4090-24g": _Profile("NVIDIA GeForce RTX 4090", (8, 9), 24 * _GIB),
    "h100-80g": _Profile("NVIDIA H100 80GB HBM3", (9, 0), 80 * _GIB),
}


def _profile(name: str) -> _Profile:
    """Return the profile of a name.

    Raises:
        ValueError: There is none.
    """
    if name not in _PROFILES:
        raise ValueError(f"there is no profile {name!r}; there are {', '.join(_PROFILES)}")
    return _PROFILES[name]
