"""Fixtures of the operator tests."""

from collections.abc import Iterator

import pytest
import torch

# Run by `make conformance`, and in part by test_conformance.py.
collect_ignore = ["conformance"]


@pytest.fixture(autouse=True)
def _clean_fallback() -> Iterator[None]:
    """Forbid the fallback, as values cannot tell whether a kernel of ours ran; leave each test empty statistics and lists."""
    torch.rustdev.set_fallback_mode("error")
    torch.rustdev.reset_fallback_stats()
    yield
    torch.rustdev.set_fallback_mode("allow")
    torch.rustdev.set_fallback_blocklist([])
    torch.rustdev.set_fallback_allowlist([])


@pytest.fixture
def fallback() -> None:
    """Allow the fallback."""
    torch.rustdev.set_fallback_mode("allow")
