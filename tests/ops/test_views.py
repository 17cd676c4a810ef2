"""Views, resize_ and set_: the same memory, with other sizes and strides."""

from collections.abc import Callable

import pytest
import torch

pytestmark = pytest.mark.usefixtures("strict")

VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "view": lambda t: t.view(4, 6),
    "view_dtype": lambda t: t.view(torch.int32),
    "reshape": lambda t: t.reshape(2, 12),
    "as_strided": lambda t: t.as_strided((3, 2), (2, 1), 3),
    "unfold": lambda t: t.unfold(2, 2, 1),
    "transpose": lambda t: t.transpose(0, 2),
    "permute": lambda t: t.permute(2, 0, 1),
    "select": lambda t: t.select(1, 2),
    "slice": lambda t: t[:, 1:, ::2],
    "narrow": lambda t: t.narrow(2, 1, 2),
    "expand": lambda t: t[:, :1].expand(2, 5, 4),
    "diagonal": lambda t: t.diagonal(0, 1, 2),
    "squeeze": lambda t: t[:1].squeeze(0),
    "unsqueeze": lambda t: t.unsqueeze(1),
    "detach": lambda t: t.detach(),
    "alias": lambda t: torch.ops.aten.alias(t),
    "split": lambda t: t.split(2, 2)[1],
    "unbind": lambda t: t.unbind(1)[1],
    "flatten": lambda t: t.flatten(),
    "movedim": lambda t: t.movedim(0, 2),
    "view_as_complex": lambda t: torch.view_as_complex(t.view(2, 3, 2, 2)),
    "view_as_real": lambda t: torch.view_as_real(torch.view_as_complex(t.view(2, 3, 2, 2))),
    "chunk": lambda t: t.chunk(2, 2)[1],
    "swapaxes": lambda t: t.swapaxes(0, 1),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_memory(name: str) -> None:
    host = torch.arange(24.0).reshape(2, 3, 4)
    device = host.to("rustdev")
    expected = VIEWS[name](host)
    view = VIEWS[name](device)
    assert (view.shape, view.stride(), view.storage_offset()) == (expected.shape, expected.stride(), expected.storage_offset())
    assert view.untyped_storage().data_ptr() == device.untyped_storage().data_ptr()
    assert torch.equal(view.cpu(), expected)
    assert view._base is None or view._base is device


def test_writes_through_views() -> None:
    device = torch.zeros(4, 4, device="rustdev")
    device[1:3, 1:3].fill_(1)
    device.t()[0].fill_(2)
    device.diagonal().zero_()
    host = torch.zeros(4, 4)
    host[1:3, 1:3].fill_(1)
    host.t()[0].fill_(2)
    host.diagonal().zero_()
    assert torch.equal(device.cpu(), host)


def test_impossible_views() -> None:
    device = torch.zeros(4, 4, device="rustdev")
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        device.t().view(16)
    with pytest.raises(RuntimeError, match="invalid for input of size"):
        device.view(5, 5)
    with pytest.raises(RuntimeError, match="out of bounds"):
        device.as_strided((100,), (1,))


def test_resize_keeps_what_it_holds() -> None:
    device = torch.arange(6.0, device="cpu").to("rustdev")
    device.resize_(2, 2)
    assert device.cpu().tolist() == [[0, 1], [2, 3]]
    device.resize_(1000)
    assert device.untyped_storage().nbytes() >= 4000
    assert device[:6].cpu().tolist() == [0, 1, 2, 3, 4, 5]
    device.resize_(0)
    assert device.numel() == 0
    with pytest.raises(RuntimeError, match="negative dimension"):
        device.resize_(-1)


def test_resize_with_a_memory_format() -> None:
    device = torch.empty(0, device="rustdev").resize_(2, 3, 4, 5, memory_format=torch.channels_last)
    assert device.is_contiguous(memory_format=torch.channels_last)
    with pytest.raises(RuntimeError, match="Unsupported memory format"):
        device.resize_(2, memory_format=torch.preserve_format)


def test_storage_resize_frees() -> None:
    device = torch.ones(1000, device="rustdev")
    device.untyped_storage().resize_(0)
    assert device.untyped_storage().nbytes() == 0
    device.untyped_storage().resize_(4000)
    assert device.fill_(3).cpu().eq(3).all()


def test_set() -> None:
    source = torch.arange(12.0).to("rustdev")
    target = torch.empty(0, device="rustdev")
    target.set_(source)
    assert target.data_ptr() == source.data_ptr()
    target.set_(source.untyped_storage())
    assert target.numel() == 12
    for dtype, length in ((torch.uint8, 48), (torch.float64, 6)):
        assert torch.empty(0, dtype=dtype, device="rustdev").set_(source.untyped_storage()).shape == (length,)
    target.set_(source.untyped_storage(), 2, (3, 2), (4, 1))
    assert torch.equal(target.cpu(), torch.arange(12.0).as_strided((3, 2), (4, 1), 2))
    target.set_(source, 1, (5,))
    assert target.cpu().tolist() == [1, 2, 3, 4, 5]
    target.set_()
    assert target.numel() == 0
    assert target.device.type == "rustdev"
    assert source.cpu().sum() == 66


def test_set_refuses_other_devices() -> None:
    target = torch.empty(0, device="rustdev")
    with pytest.raises(RuntimeError, match="device"):
        target.set_(torch.arange(3.0).untyped_storage())


def test_factories() -> None:
    empty = torch.empty(2, 3, dtype=torch.int16, device="rustdev:1")
    assert (empty.shape, empty.dtype, empty.device) == ((2, 3), torch.int16, torch.device("rustdev:1"))
    strided = torch.empty_strided((2, 3), (1, 2), device="rustdev")
    assert strided.stride() == (1, 2)
    channels = torch.empty(2, 3, 4, 5, device="rustdev", memory_format=torch.channels_last)
    assert channels.is_contiguous(memory_format=torch.channels_last)
    assert torch.ones(3, device="rustdev").tolist() == [1, 1, 1]
    assert torch.zeros_like(empty).device.index == 1
    assert torch.full((2,), 7, dtype=torch.uint8, device="rustdev").tolist() == [7, 7]
    with pytest.raises(RuntimeError, match="negative dimension"):
        torch.empty(-1, device="rustdev")
    with pytest.raises(RuntimeError, match="pinned"):
        torch.empty(1, device="rustdev", pin_memory=True)


def test_fill_refuses_what_the_dtype_cannot_hold() -> None:
    with pytest.raises(RuntimeError, match="overflow"):
        torch.empty(2, dtype=torch.uint8, device="rustdev").fill_(300)
    with pytest.raises(RuntimeError, match="overflow"):
        torch.empty(2, device="rustdev").fill_(1j)
    with pytest.raises(RuntimeError, match="0-dimension"):
        torch.empty(2, device="rustdev").fill_(torch.ones(2))


def test_numbers_fill_memory_that_overlaps_itself_and_tensors_do_not() -> None:
    memory = torch.ones(2, 1, device="rustdev")
    expanded = memory.expand(2, 3)
    expanded.fill_(2)
    assert memory.tolist() == [[2.0], [2.0]]
    expanded[1].zero_()
    assert memory.tolist() == [[2.0], [0.0]]
    with pytest.raises(RuntimeError, match="refers to a single memory location"):
        expanded.fill_(torch.tensor(3.0))


def test_fill_with_tensors() -> None:
    device = torch.empty(2, 3, device="rustdev")
    assert device.fill_(torch.tensor(2)).cpu().eq(2).all()
    assert device.t()[1:].fill_(torch.tensor(3.0).to("rustdev")).cpu().eq(3).all()


def test_deterministic_fill() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(3, device="rustdev").cpu().isnan().all()
    finally:
        torch.use_deterministic_algorithms(False)


def test_record_stream() -> None:
    stream = torch.rustdev.Stream()
    tensor = torch.ones(1000, device="rustdev")
    with torch.rustdev.stream(stream):
        torch.rustdev._sleep(50_000_000)
        result = tensor + 1
    tensor.record_stream(stream)
    del tensor
    other = torch.zeros(1000, device="rustdev")
    other.fill_(9)
    stream.synchronize()
    assert result.cpu().eq(2).all()
