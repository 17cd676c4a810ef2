"""Settings of the tests of whole models: the fallback is forbidden, so that the device computes everything."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _without_fallback() -> Iterator[None]:
    """Forbid the fallback."""
    torch.rustdev.set_fallback_mode("error")
    yield
    torch.rustdev.set_fallback_mode("allow")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    """Let the CPU's kernels take one thread: these networks are small."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)
