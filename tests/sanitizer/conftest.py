"""Tests of the race detector start with it disabled and without reports, and restore its state."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _no_reports() -> Iterator[None]:
    before = torch.rustdev.sanitizer_mode()
    torch.rustdev.disable_sanitizer()
    torch.rustdev.clear_sanitizer_reports()
    yield
    torch.rustdev.disable_sanitizer()
    torch.rustdev.clear_sanitizer_reports()
    if before is not None:
        torch.rustdev.enable_sanitizer(before)
