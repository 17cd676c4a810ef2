"""Fixtures of the tests of torch.compile: each g++ call takes about a second, so graphs are small and kernels are shared."""

from collections.abc import Iterator

import pytest
import torch
from generated import fresh_cache

# Run by `make conformance-compile`, and in part by test_conformance_compile.py.
collect_ignore = ["conformance"]


@pytest.fixture(scope="session")
def _fresh_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let nothing that an earlier run compiled be found, but precompiled headers."""
    cache = fresh_cache(tmp_path_factory.mktemp("inductor"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
        yield


@pytest.fixture(autouse=True)
def _clean_compiler(_fresh_cache: None) -> Iterator[None]:
    """Leave each test no compiled functions of others, and forbid the fallback of eager operators."""
    torch._dynamo.reset()
    torch.rustdev.set_fallback_mode("error")
    yield
    torch.rustdev.set_fallback_mode("allow")
