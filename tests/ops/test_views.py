"""Views, resize_, set_ and fill_: the same memory, with other sizes and strides."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from comparison import compare, compare_errors

Call = Callable[[torch.Tensor], Any]
#: Of numbers (2, 3, 4): results, their strides and offsets, and memory in common are the CPU's.
CALLS: dict[str, Call] = {
    "fill_ of a part": lambda t: t[1:, 1:3].fill_(1),
    "fill_ of columns": lambda t: t.transpose(1, 2)[0].fill_(2),
    "zero_ of a diagonal": lambda t: t.diagonal().zero_(),
    "fill_ of a number that is a tensor": lambda t: t[0].t().fill_(torch.tensor(2)),
    "fill_ of a number on the device": lambda t: t[0].t()[1:].fill_(t[0, 0, 1]),
    "fill_ of expanded memory": lambda t: t[:, :, :1].expand(2, 3, 4).fill_(2),
    "zero_ of expanded memory": lambda t: t[0, 0, 0].expand(5).zero_(),
    "resize_ to less": lambda t: t.resize_(2, 2),
    "resize_ to nothing": lambda t: t.resize_(0),
    "resize_ to more": lambda t: t.clone().resize_(1000)[:24],
    "resize_ of channels last": lambda t: t.new_empty(0).resize_(2, 3, 4, 5, memory_format=torch.channels_last).fill_(0),
    "resize_ of a storage": lambda t: (t.untyped_storage().resize_(0), t.untyped_storage().resize_(96), t.fill_(3))[2],
    "set_": lambda t: t.new_empty(0).set_(t),
    "set_ of a storage": lambda t: t.new_empty(0).set_(t.untyped_storage()),
    "set_ of a storage in bytes": lambda t: t.new_empty(0, dtype=torch.uint8).set_(t.untyped_storage()),
    "set_ of a storage in other units": lambda t: t.new_empty(0, dtype=torch.int64).set_(t.untyped_storage()),
    "set_ of a part of a storage": lambda t: t.new_empty(0).set_(t.untyped_storage(), 2, (3, 2), (4, 1)),
    "set_ of a part": lambda t: t.new_empty(0).set_(t, 1, (5,)),
    "set_ of nothing": lambda t: t.clone().set_(),
}
REFUSED: dict[str, Call] = {
    "view of strides": lambda t: t[0].t().view(12),
    "view of sizes": lambda t: t.view(5, 5),
    "as_strided": lambda t: t.as_strided((100,), (1,)),
    "resize_": lambda t: t.resize_(-1),
    "resize_ of a format": lambda t: t.resize_(2, memory_format=torch.preserve_format),
    "fill_ of a large number": lambda t: t.byte().fill_(300),
    "fill_ of a complex number": lambda t: t.fill_(1j),
    "fill_ of several numbers": lambda t: t.fill_(torch.ones(2)),
    "fill_ of expanded memory by a tensor": lambda t: t[:, :1].expand(2, 5, 4).fill_(torch.tensor(3.0)),
    "empty": lambda t: torch.empty(-1, device=t.device),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    compare(CALLS[name], torch.arange(24.0).reshape(2, 3, 4))


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    compare_errors(REFUSED[name], torch.arange(24.0).reshape(2, 3, 4), text=name != "resize_")


def test_a_view_has_its_base() -> None:
    device = torch.arange(6.0).to("rustdev")
    assert device.view(2, 3)._base is device
    target = torch.empty(0, device="rustdev")
    with pytest.raises(RuntimeError, match="device"):
        target.set_(torch.arange(3.0).untyped_storage())
    with pytest.raises(RuntimeError, match="pinned"):
        torch.empty(1, device="rustdev", pin_memory=True)
    assert torch.zeros_like(torch.empty(2, device="rustdev:1")).device.index == 1
