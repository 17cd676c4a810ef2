"""Settings of the tests of whole models: the fallback is forbidden, so that the device computes everything itself."""

from collections.abc import Iterator

import compared_models
import pytest
import torch


@pytest.fixture(autouse=True)
def _without_fallback(request: pytest.FixtureRequest) -> Iterator[None]:
    """Forbid the fallback, but to the sparse gradients of the recommender."""
    torch.rustdev.set_fallback_mode("error")
    if "recommender" in request.node.name:
        torch.rustdev.set_fallback_allowlist(compared_models.SPARSE)
    yield
    torch.rustdev.set_fallback_mode("allow")
    torch.rustdev.set_fallback_allowlist([])


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    """Let the CPU's kernels take one thread: these networks are small."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)
