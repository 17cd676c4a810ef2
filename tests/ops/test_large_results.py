"""Results that are large enough for non-temporal stores: their beginning, their end and the memory after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("strict")

#: Elements of 4 bytes that take 32 MiB, from which results are stored non-temporally, and some more: no whole number of blocks.
COUNT = (8 << 20) + 77

OPERATORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "neg": torch.neg,
    "add": lambda tensor: tensor + tensor,
    "eq": lambda tensor: tensor.view(torch.uint8) == 1,
    "neg_": torch.neg_,
    "clone": torch.clone,
    "full": lambda tensor: torch.full_like(tensor, 3),
    "zeros": torch.zeros_like,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
@pytest.mark.parametrize("name", OPERATORS)
def test_a_large_result_is_the_cpus(name: str, dtype: torch.dtype) -> None:
    host = (torch.arange(COUNT * 4 // dtype.itemsize, dtype=torch.int32) % 251).to(dtype)
    operator = OPERATORS[name]
    assert torch.equal(operator(host.to("rustdev")).cpu(), operator(host))


@pytest.mark.parametrize("first", [1, 4])
def test_nothing_beside_a_large_result_is_written(first: int) -> None:
    memory = torch.full((COUNT + 16,), 7.0, device="rustdev")
    part = memory[first : first + COUNT]
    part.fill_(1)
    torch.neg(torch.ones(COUNT, device="rustdev"), out=part)
    part.copy_(part + part)
    expected = torch.full((COUNT + 16,), 7.0)
    expected[first : first + COUNT] = -2
    assert torch.equal(memory.cpu(), expected)
