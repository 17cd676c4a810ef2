"""Fixtures of the operator tests."""

from collections.abc import Iterator

import pytest
import torch

# Run by `make conformance`, and in part by test_conformance.py.
collect_ignore = ["conformance"]


@pytest.fixture
def strict() -> Iterator[None]:
    """Forbid the fallback: values cannot tell whether a kernel of ours ran."""
    torch.rustdev.set_fallback_mode("error")
    yield
    torch.rustdev.set_fallback_mode("allow")


@pytest.fixture(autouse=True)
def _clean_fallback() -> Iterator[None]:
    """Leave each test the usual rules and empty statistics."""
    torch.rustdev.set_fallback_mode("allow")
    torch.rustdev.reset_fallback_stats()
    yield
    torch.rustdev.set_fallback_mode("allow")
    torch.rustdev.set_fallback_blocklist([])
    torch.rustdev.set_fallback_allowlist([])
