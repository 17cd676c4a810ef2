"""Operators on large tensors take no more memory than on the CPU, and take it from the device's pool."""

import ctypes
import gc
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from families import FAMILIES, IMAGES, MODEL, Family, edges, positions

#: Sizes of operands, of twice the slack.
SHAPE, IMAGE = (1024, 1024), (8, 32, 56, 56)
#: What tasks, queues and caches may take beside the tensors, in bytes.
SLACK = 2 << 20

STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")
LIBC = ctypes.CDLL(None)


def resident(what: str) -> int:
    """Return the bytes of memory that the process has (VmRSS), or had at most (VmHWM)."""
    found = re.search(rf"{what}:\s+(\d+) kB", STATUS.read_text())
    assert found
    return int(found[1]) << 10


def peak_of_process(call: Callable[[], Any]) -> int:
    """Return how many bytes the process grows by at most."""
    gc.collect()
    # What is free in the heap goes back, too: else a tensor may take it, and the process does not grow.
    LIBC.malloc_trim(0)
    RESET.write_text("5")
    before = resident("VmRSS")
    result = call()
    torch.rustdev.synchronize()
    del result
    return resident("VmHWM") - before


def peak_of_pool(call: Callable[[], Any]) -> int:
    """Return how many bytes of the device are taken at most."""
    torch.rustdev.reset_peak_memory_stats()
    before = torch.rustdev.memory_allocated()
    result = call()
    torch.rustdev.synchronize()
    del result
    return torch.rustdev.max_memory_allocated() - before


@pytest.fixture(scope="module", autouse=True)
def _memory_goes_back_to_the_system() -> Iterator[None]:
    """Have the CPU's tensors take their memory from the system and give it back, so that it shows; keep nothing afterwards."""
    threshold, at_most = -3, 32 << 20
    assert LIBC.mallopt(threshold, 1 << 20)
    gc.collect()
    gc.freeze()  # collections look at what the tests make alone
    yield
    gc.unfreeze()
    assert LIBC.mallopt(threshold, at_most)
    for made in (positions, edges):
        made.cache_clear()
    torch.rustdev.empty_cache()


CASES = [
    pytest.param(family, operator, id=f"{family.name}-{operator}".replace(" ", "_"))
    for family in FAMILIES
    if family.sizes is not MODEL
    for operator in family.operators
]


@pytest.mark.slow
@pytest.mark.skipif(not RESET.exists(), reason="peaks of resident memory are Linux's")
@pytest.mark.parametrize(("family", "operator"), CASES)
def test_an_operator_takes_no_more_memory_than_on_the_cpu(family: Family, operator: str) -> None:
    call = family.operators[operator]
    shape = IMAGE if family.sizes is IMAGES else SHAPE
    host = [torch.rand(shape) + 0.1 for _ in range(family.inputs)]
    mine = [tensor.to("rustdev") for tensor in host]

    def on_cpu() -> object:
        return call(*host)

    def on_device() -> object:
        return call(*mine)

    on_cpu()
    on_device()
    cpu = peak_of_process(on_cpu)
    torch.rustdev.synchronize()
    # What the pool holds has been used before, so that the process grows by what does not come from there.
    pool = peak_of_pool(on_device)
    outside = peak_of_process(on_device)
    print(f"{operator}: CPU {cpu >> 20} MiB, pool {pool >> 20} MiB, outside of it {outside >> 20} MiB")
    assert outside <= SLACK, f"{outside} bytes outside the pool"
    assert pool <= cpu + SLACK, f"{pool} bytes of the device, {cpu} on the CPU"
