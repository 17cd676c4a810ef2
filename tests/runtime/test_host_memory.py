"""Pinned host memory: pinning, reuse after streams, statistics, and the cache."""

import gc
from collections.abc import Iterator

import pytest
import torch

VALUES = ("current", "peak", "allocated", "freed")


@pytest.fixture(autouse=True)
def _fresh_memory() -> Iterator[None]:
    """Let each test start with an empty cache and fresh counters."""
    gc.collect()
    torch.rustdev.empty_host_cache()
    torch.rustdev.reset_peak_host_memory_stats()
    torch.rustdev.reset_accumulated_host_memory_stats()
    return


def test_pinned_tensors_say_so() -> None:
    plain = torch.arange(1000)
    pinned = plain.pin_memory()
    assert pinned.is_pinned()
    assert not plain.is_pinned()
    assert pinned.device.type == "cpu"
    assert torch.equal(pinned, plain)
    assert pinned[500:].is_pinned()
    assert pinned.pin_memory() is pinned
    assert torch.empty(10, pin_memory=True).is_pinned()
    assert torch.empty(0, pin_memory=True).numel() == 0


def test_pinned_memory_is_page_aligned() -> None:
    for size in (1, 5000, 1 << 20):
        assert torch.empty(size, dtype=torch.uint8, pin_memory=True).data_ptr() % 4096 == 0


def test_the_keys_are_those_of_torch_cuda() -> None:
    keys = {f"{name}.{value}" for name in ("allocations", "allocated_bytes", "active_requests", "active_bytes") for value in VALUES}
    keys |= {
        f"{name}.{value}" for name in ("host_alloc_time", "host_free_time") for value in ("total", "max", "min", "count", "avg")
    }
    keys |= {"num_host_alloc", "num_host_free"}
    assert set(torch.rustdev.host_memory_stats()) == keys
    assert torch.rustdev.host_memory_stats_as_nested_dict()["active_bytes"]["current"] >= 0


def test_statistics_are_exact() -> None:
    base = torch.rustdev.host_memory_stats()
    held = torch.empty(10_000, dtype=torch.uint8, pin_memory=True)
    stats = torch.rustdev.host_memory_stats()
    assert stats["active_bytes.current"] - base["active_bytes.current"] == 12_288
    assert stats["active_requests.current"] - base["active_requests.current"] == 1
    assert (stats["num_host_alloc"], stats["host_alloc_time.count"]) == (1, 1)
    del held
    stats = torch.rustdev.host_memory_stats()
    assert stats["active_bytes.current"] == base["active_bytes.current"]
    assert stats["allocated_bytes.current"] - base["allocated_bytes.current"] == 12_288
    assert stats["active_bytes.peak"] - base["active_bytes.current"] == 12_288
    torch.rustdev.reset_peak_host_memory_stats()
    torch.rustdev.reset_accumulated_host_memory_stats()
    stats = torch.rustdev.host_memory_stats()
    assert (stats["active_bytes.peak"], stats["active_bytes.allocated"]) == (stats["active_bytes.current"], 0)


def test_freed_memory_is_used_again_and_given_back() -> None:
    before = torch.rustdev.host_memory_stats()["allocations.current"]
    address = torch.empty(1 << 20, pin_memory=True).data_ptr()
    assert torch.empty(1 << 20, pin_memory=True).data_ptr() == address
    torch.accelerator.empty_host_cache()
    stats = torch.rustdev.host_memory_stats()
    assert (stats["allocations.current"], stats["num_host_free"]) == (before, 1)


def test_memory_that_a_queued_copy_reads_is_not_given_out() -> None:
    pinned = torch.full((1 << 20,), 3.0).pin_memory()
    address = pinned.data_ptr()
    torch.rustdev._sleep(200_000_000)
    copy = pinned.to("rustdev", non_blocking=True)
    del pinned
    other = torch.zeros(1 << 20).pin_memory()
    assert other.data_ptr() != address
    assert copy.cpu().eq(3).all()
    assert torch.empty(1 << 20, pin_memory=True).data_ptr() == address
    assert other.eq(0).all()


def test_an_impossible_size_is_an_error() -> None:
    with pytest.raises(torch.OutOfMemoryError, match="host memory"):
        torch.empty(1 << 55, dtype=torch.uint8, pin_memory=True)
