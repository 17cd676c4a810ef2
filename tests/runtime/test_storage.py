"""Storages; save, load, deepcopy and print of tensors."""

import copy
import io

import pytest
import torch

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
    torch.float64, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.uint16, torch.uint32, torch.uint64,
]  # fmt: skip


def saved(value: object) -> io.BytesIO:
    """Save a value to memory, ready to be loaded."""
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_save_and_load(dtype: torch.dtype) -> None:
    source = torch.arange(6).reshape(2, 3).to(dtype)
    loaded = torch.load(saved(source.to("rustdev:1")))
    assert loaded.device == torch.device("rustdev:1")
    assert loaded.dtype == dtype
    assert torch.equal(loaded.cpu(), source)


def test_load_to_a_device_that_does_not_exist_is_refused() -> None:
    with pytest.raises(RuntimeError, match="device_count"):
        torch.load(saved(torch.ones(2)), map_location="rustdev:5")


def test_deepcopy() -> None:
    tensor = torch.arange(6.0, device="rustdev:1").reshape(2, 3).t()
    again = copy.deepcopy(tensor)
    assert again.device == tensor.device
    assert again.stride() == tensor.stride()
    again.zero_()
    assert tensor.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    model = torch.nn.Sequential(torch.nn.Linear(2, 2)).rustdev()
    assert torch.equal(copy.deepcopy(model)[0].weight, model[0].weight)


def test_print() -> None:
    assert repr(torch.arange(3, device="rustdev:1")) == "tensor([0, 1, 2], device='rustdev:1')"
    assert repr(torch.tensor(1.5, device="rustdev")) == "tensor(1.5000, device='rustdev:0')"
    assert "device='rustdev:0'" in repr(torch.rand(3, 4, device="rustdev", requires_grad=True))
    assert repr(torch.empty(0, device="rustdev")) == "tensor([], device='rustdev:0')"
    assert "..." in repr(torch.zeros(2000, device="rustdev"))


def test_untyped_storage() -> None:
    storage = torch.arange(8, dtype=torch.uint8, device="rustdev").untyped_storage()
    assert storage.device == torch.device("rustdev:0")
    assert storage.nbytes() == 8
    assert storage.cpu().tolist() == list(range(8))
    assert storage.clone().tolist() == list(range(8))
    assert storage[3] == 3
    storage.fill_(5)
    assert storage.tolist() == [5] * 8
    assert torch.UntypedStorage(16, device="rustdev:1").device == torch.device("rustdev:1")


@pytest.mark.parametrize("size", [0, 3, 8, 4096])
def test_resize_keeps_what_fits(size: int) -> None:
    tensor = torch.arange(8, dtype=torch.uint8, device="rustdev")
    storage = tensor.untyped_storage()
    storage.resize_(size)
    assert storage.nbytes() == size
    assert storage.tolist()[:8] == list(range(min(size, 8)))
    storage.resize_(8)
    assert tensor.tolist()[: min(size, 8)] == list(range(min(size, 8)))


def test_resize_is_ordered_by_the_stream() -> None:
    tensor = torch.zeros(1024, dtype=torch.uint8, device="rustdev")
    torch.rustdev._sleep(50_000_000)
    tensor.add_(1)
    tensor.untyped_storage().resize_(4096)
    tensor.add_(1)
    assert tensor.tolist() == [2] * 1024


def test_resize_frees_memory() -> None:
    tensor = torch.empty(1 << 20, device="rustdev")
    before = torch.accelerator.memory_allocated()
    tensor.untyped_storage().resize_(0)
    assert before - torch.accelerator.memory_allocated() >= 4 << 20


def test_set_to_another_storage() -> None:
    source = torch.arange(6.0, device="rustdev")
    tensor = torch.empty(0, device="rustdev")
    tensor.set_(source.untyped_storage(), 2, (2, 2), (2, 1))
    assert tensor.tolist() == [[2.0, 3.0], [4.0, 5.0]]
    assert tensor.data_ptr() == source.data_ptr() + 8
