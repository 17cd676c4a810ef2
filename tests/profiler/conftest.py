"""Fixtures of the profiler's tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chrome_trace import EVERYTHING, Take, Trace, exported
from torch.profiler import profile


@pytest.fixture
def take(tmp_path: Path) -> Take:
    """Profiles a function's call and gives the trace."""

    def take(function: Callable[[], object], activities: Any = EVERYTHING, **options: Any) -> Trace:
        with profile(activities=activities, **options) as profiler:
            function()
        return exported(profiler, tmp_path / "trace.json")

    return take
