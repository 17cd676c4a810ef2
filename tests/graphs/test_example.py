"""The example examples/graph_training.py: its losses with and without a graph are equal."""

from pathlib import Path

import children

EXAMPLE = Path(__file__).parents[2] / "examples/graph_training.py"


def test_the_example_trains_the_same_network_both_ways() -> None:
    result = children.python(EXAMPLE, "--steps", "40")
    assert result.returncode == 0, result.stderr
    assert "loss after 40 steps" in result.stdout
