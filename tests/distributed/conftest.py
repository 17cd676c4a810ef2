"""Groups of processes for the tests of this folder."""

from collections.abc import Iterator

import pytest
from workers import Workers


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """Two ranks in a group of gloo for the CPU and rdccl for the device."""
    workers = Workers(2, tmp_path_factory.mktemp("pair"))
    yield workers
    workers.close()


@pytest.fixture(scope="session")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """Four ranks in such a group."""
    workers = Workers(4, tmp_path_factory.mktemp("four"))
    yield workers
    workers.close()


@pytest.fixture(scope="session")
def joiners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """Two processes that make their groups themselves."""
    workers = Workers(2, tmp_path_factory.mktemp("joiners"), backend=None)
    yield workers
    workers.close()
