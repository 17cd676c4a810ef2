"""Settings of all Python tests; they are made before anything imports torch."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

# Two devices, so that what mixes them up fails.
os.environ["RUSTDEV_DEVICE_COUNT"] = "2"
# PyTorch's OpenMP threads sleep between loops: several processes test at once, and threads that spin take two thirds of the time.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import layers
import pytest
import torch


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that chooses a layer."""
    parser.addoption("--layer", choices=layers.LAYERS, help="run the tests of a layer alone: tests/layers.py has the rule")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the layer has not."""
    if config.getoption("--layer") is None:
        return
    kept = layers.chosen(items, Path(__file__).parent)
    known = set(map(id, kept))
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in known])
    items[:] = kept


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers of these tests."""
    config.addinivalue_line("markers", "planted_race: kernels race, as the test wants; left out under the thread sanitizer")
    config.addinivalue_line("markers", "clock: fails on a busy machine, as it measures time; no other test runs meanwhile")
    config.addinivalue_line("markers", "slow: not among the tests of `make check`, as it takes seconds")
    config.addinivalue_line("markers", "every_operator: among the tests of `make check` with all its parameters")


@pytest.fixture(scope="session", autouse=True)
def _quick_collections() -> Iterator[None]:
    """Have collections of garbage, which some fixtures make for each test, leave alone what exists by now."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _clean_state() -> Iterator[None]:
    """Leave each test the first device, default streams and a known seed, and let no failure of a task leak into the next one."""
    torch.rustdev.manual_seed_all(0)
    torch.default_generator.manual_seed(0)  # `torch.manual_seed` notes the stack for each kind of accelerator, which takes longer
    yield
    for index in range(torch.rustdev.device_count()):
        torch.rustdev.synchronize(index)
        torch.rustdev.set_stream(torch.rustdev.default_stream(index))
    torch.rustdev.set_device(0)
