"""The other processes of these tests. They are shared, since starting one takes seconds."""

from collections.abc import Iterator

import pytest
import torch
from processes_workers import Worker


@pytest.fixture(scope="session", params=["spawn", "forkserver"])
def worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    """A process that keeps its first argument, a tensor of this one."""
    worker = Worker(request.param, torch.arange(4.0, device="rustdev"))
    yield worker
    worker.close()


@pytest.fixture(scope="session")
def spawned() -> Iterator[Worker]:
    """A process of its own."""
    worker = Worker()
    yield worker
    worker.close()
