"""Settings of all Python tests; they are made before anything imports torch."""

import os
from collections.abc import Iterator

# Two devices, so that what mixes them up fails.
os.environ["RUSTDEV_DEVICE_COUNT"] = "2"

import pytest
import torch


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers of these tests."""
    config.addinivalue_line("markers", "planted_race: kernels race, as the test wants; left out under the thread sanitizer")
    config.addinivalue_line("markers", "stress: runs for a minute; on demand, with TEST_RUSTDEV_STRESS=1")


@pytest.fixture(autouse=True)
def _clean_state() -> Iterator[None]:
    """Leave each test the first device, default streams and a known seed, and let no failure of a task leak into the next one."""
    torch.manual_seed(0)
    yield
    for index in range(torch.rustdev.device_count()):
        torch.rustdev.synchronize(index)
        torch.rustdev.set_stream(torch.rustdev.default_stream(index))
    torch.rustdev.set_device(0)
