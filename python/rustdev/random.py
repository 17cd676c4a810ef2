"""The devices' default random generators: Philox 4x32-10, with a state of 16 bytes (seed, offset)."""

from collections.abc import Iterable

import torch

from ._name import NAME
from ._utils import DeviceLike, _checked_device_index, _refuse_in_fork_child, _use

__all__ = [
    "default_generators",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]

#: The default generator of each device.
default_generators: tuple[torch.Generator, ...] = tuple(
    torch.ops.rustdev.default_generator(index) for index in range(torch._C._accelerator_hooks_device_count())
)


def _get_generator(device: DeviceLike) -> torch.Generator:
    return default_generators[_checked_device_index(device)]


def _all_generators() -> tuple[torch.Generator, ...]:
    _refuse_in_fork_child()
    return default_generators


def get_rng_state(device: DeviceLike = NAME) -> torch.Tensor:
    """Return the state of a device's generator as a CPU tensor of 16 bytes.

    Args:
        device: Selected device. Default: the current device.
    """
    _use()
    return _get_generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """Return the states of all devices' generators."""
    _use()
    return [generator.get_state() for generator in _all_generators()]


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = NAME) -> None:
    """Set the state of a device's generator.

    Args:
        new_state: State from ``get_rng_state``: a CPU tensor of 16 bytes.
        device: Selected device. Default: the current device.
    """
    _get_generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Set the states of all devices' generators.

    Args:
        new_states: One state for each device, in order.

    Raises:
        ValueError: If the number of states is not the number of devices; no generator is changed then.
    """
    generators, states = _all_generators(), list(new_states)
    if len(states) != len(generators):
        raise ValueError(f"there are {len(generators)} devices, but {len(states)} states")
    for generator, state in zip(generators, states, strict=True):
        generator.set_state(state)


def _get_rng_state_offset(device: DeviceLike = NAME) -> int:
    return _get_generator(device).get_offset()


def _set_rng_state_offset(offset: int, device: DeviceLike = NAME) -> None:
    _get_generator(device).set_offset(offset)


def manual_seed(seed: int) -> None:
    """Set the seed of the current device's generator.

    Args:
        seed: 64-bit integer.
    """
    _get_generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Set the seed of the generators of all devices.

    Args:
        seed: 64-bit integer.
    """
    for generator in _all_generators():
        generator.manual_seed(int(seed))


def seed() -> None:
    """Set the seed of the current device's generator to a random number from the system's entropy source."""
    _get_generator(None).seed()


def seed_all() -> None:
    """Set the seed of the generators of all devices to one random number from the system's entropy source."""
    generators = _all_generators()
    if generators:
        manual_seed_all(generators[0].seed())


def initial_seed() -> int:
    """Return the current seed of the current device's generator."""
    _use()
    return _get_generator(None).initial_seed()
