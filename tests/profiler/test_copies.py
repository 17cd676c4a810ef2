"""Copies in traces: their direction, their bytes, and operations that are not copies."""

from collections.abc import Callable

import pytest
import torch
from chrome_trace import Take


def _device(index: int = 0) -> torch.Tensor:
    return torch.ones(10, 25, device=f"rustdev:{index}")


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("Memcpy HtoD (Pageable -> Device)", lambda: (torch.ones(10, 25), _device(), False)),
        ("Memcpy HtoD (Pinned -> Device)", lambda: (torch.ones(10, 25).pin_memory(), _device(), False)),
        ("Memcpy HtoD (Pinned -> Device)", lambda: (torch.ones(10, 25).pin_memory(), _device(), True)),
        ("Memcpy DtoH (Device -> Pageable)", lambda: (_device(), torch.ones(10, 25), False)),
        ("Memcpy DtoH (Device -> Pinned)", lambda: (_device(), torch.ones(10, 25).pin_memory(), True)),
        ("Memcpy DtoD (Device -> Device)", lambda: (_device(), torch.zeros_like(_device()), False)),
        ("Memcpy PtoP (Device -> Device)", lambda: (_device(0), torch.zeros_like(_device(1)), False)),
    ],
)
def test_a_copy_tells_its_direction_and_its_bytes(
    take: Take, name: str, make: Callable[[], tuple[torch.Tensor, torch.Tensor, bool]]
) -> None:
    source, target, non_blocking = make()
    torch.rustdev.synchronize(0)
    torch.rustdev.synchronize(1)
    trace = take(lambda: target.copy_(source, non_blocking=non_blocking))
    row = trace.row(name)
    assert (row["cat"], row["args"]["bytes"]) == ("gpu_memcpy", 1000)
    assert row["args"]["memory bandwidth (GB/s)"] > 0
    assert trace.operator(row) == "aten::copy_"
    assert trace.row("rd_launch", "privateuse1_runtime")["args"]["task"] == "copy_"
    torch.rustdev.synchronize(0)
    torch.rustdev.synchronize(1)
    assert torch.equal(target.cpu(), torch.ones(10, 25))


@pytest.mark.parametrize("convert", [torch.Tensor.double, lambda x: x.t().contiguous()])
def test_what_changes_dtype_or_layout_within_a_device_is_a_kernel(
    take: Take, convert: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    x = torch.rand(10, 25, device="rustdev")
    row = take(lambda: convert(x)).row("copy_")
    assert (row["cat"], row["args"]["tier"]) == ("kernel", "rust")


def test_a_copy_that_converts_counts_what_it_writes(take: Take) -> None:
    source, target = torch.ones(100, dtype=torch.float64), torch.empty(100, device="rustdev", dtype=torch.bfloat16)
    assert take(lambda: target.copy_(source)).row("Memcpy HtoD (Pageable -> Device)")["args"]["bytes"] == 200
