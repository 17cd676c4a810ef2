"""DataLoader workers that make device tensors: an error in forked workers; spawned workers send the tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import children
import pytest

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import CompletedProcess

SCRIPT = """
import sys
import torch
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((2,), float(index * index), device="rustdev")

if __name__ == "__main__":
    torch.ones(1, device="rustdev")
    loader = DataLoader(Squares(), batch_size=3, num_workers=1, multiprocessing_context=sys.argv[1])
    batches = [batch.clone() for batch in loader]
    print([batch[:, 0].tolist() for batch in batches], batches[0].device)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A program that loads such tensors."""
    path = tmp_path / "loads.py"
    path.write_text(SCRIPT)
    return path


def run(script: Path, method: str) -> CompletedProcess[str]:
    return children.python(script, method)


def test_forked_workers_are_refused(script: Path) -> None:
    result = run(script, "fork")
    assert result.returncode == 1
    assert "RuntimeError: Cannot re-initialize rustdev in forked subprocess" in result.stderr
    assert "use the 'spawn' start method" in result.stderr


def test_tensors_of_spawned_workers_are_received(script: Path) -> None:
    result = run(script, "spawn")
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[[0.0, 1.0, 4.0], [9.0, 16.0, 25.0]] rustdev:0"
