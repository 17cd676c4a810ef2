"""The example examples/graph_training.py: its losses with and without a graph are equal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples/graph_training.py"


def test_the_example_trains_the_same_network_both_ways() -> None:
    command = [sys.executable, str(EXAMPLE), "--steps", "40"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    assert "loss after 40 steps" in result.stdout
