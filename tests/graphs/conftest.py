"""Fixtures of the tests of graphs: the fallback is forbidden, as it cannot be captured."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _without_fallback() -> Iterator[None]:
    """Forbid the fallback."""
    torch.rustdev.set_fallback_mode("error")
    yield
    torch.rustdev.set_fallback_mode("allow")
