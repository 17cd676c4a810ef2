"""Fixtures of these tests."""

import gc

import pytest


@pytest.fixture(scope="session", autouse=True)
def _quick_collections() -> None:
    """Have collections of garbage, which some fixtures make for each test, leave alone what exists by now."""
    gc.collect()
    gc.freeze()
