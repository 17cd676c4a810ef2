"""Interchange: DLPack, NumPy, and tensors that are not dense: sparse, quantized.

The reference is the CPU: what it does with such tensors, the device does, too, at least by the fallback.
"""

import gc
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from comparison import assert_same
from torch.utils import dlpack
from torch.utils.dlpack import DLDeviceType

MILLISECOND = 1_000_000

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta state"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled"),
    pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor"),
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword"),
]

DTYPES = (torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64, torch.complex64)


def test_dlpack_names_the_device() -> None:
    assert torch.ones(2, device="rustdev:1").__dlpack_device__() == (DLDeviceType.kDLExtDev, 1)
    assert torch.ones(2).__dlpack_device__() == (DLDeviceType.kDLCPU, 0)
    assert torch.ones(2, device="rustdev").as_subclass(type("Sub", (torch.Tensor,), {})).__dlpack_device__()[1] == 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dlpack_shares_memory_within_the_device(dtype: torch.dtype) -> None:
    source = torch.arange(12, device="rustdev:1").to(dtype).reshape(3, 4).t()[1:]
    again = torch.from_dlpack(source)
    assert (again.device, again.dtype, again.stride(), again.data_ptr()) == (
        source.device, source.dtype, source.stride(), source.data_ptr(),
    )  # fmt: skip
    again.zero_()
    assert not source.cpu().any()


def test_dlpack_capsules_keep_the_memory_and_give_it_back() -> None:
    gc.collect()
    before = torch.rustdev.memory_allocated()
    capsule = dlpack.to_dlpack(torch.full((1000,), 2.0, device="rustdev"))
    assert torch.rustdev.memory_allocated() > before
    tensor = dlpack.from_dlpack(capsule)
    assert tensor.sum().item() == 2000.0
    del tensor, capsule
    gc.collect()
    assert torch.rustdev.memory_allocated() == before
    unused = torch.ones(1000, device="rustdev").__dlpack__(max_version=(1, 0))
    del unused
    gc.collect()
    assert torch.rustdev.memory_allocated() == before


@pytest.mark.parametrize(("source", "target"), [("cpu", "rustdev:1"), ("rustdev:1", "cpu"), ("rustdev:0", "rustdev:1")])
def test_dlpack_copies_between_devices(source: str, target: str) -> None:
    tensor = torch.arange(6.0, device=source)
    for moved in (torch.from_dlpack(tensor, device=target), torch.from_dlpack(tensor, copy=True)):
        assert moved.device in (torch.device(target), tensor.device)
        assert moved.tolist() == tensor.tolist()
        moved.zero_()
        assert tensor.sum().item() == 15.0
    assert torch.from_dlpack(tensor, device=source, copy=False).data_ptr() == tensor.data_ptr()
    with pytest.raises(ValueError, match="cannot move DLPack tensor"):
        torch.from_dlpack(tensor, device=target, copy=False)


def test_dlpack_orders_the_stream_of_the_consumer() -> None:
    tensor, consumer = torch.zeros(256, device="rustdev:1"), torch.rustdev.Stream(1)
    with torch.rustdev.device(1):
        torch.rustdev._sleep(200 * MILLISECOND)
    tensor.add_(4)
    capsule = tensor.__dlpack__(stream=consumer.rustdev_stream, max_version=(1, 0))
    with consumer:
        copied = torch.from_dlpack(capsule).clone()
    assert not consumer.query()
    consumer.synchronize()
    assert copied.tolist() == [4.0] * 256
    with torch.rustdev.stream(consumer):
        torch.rustdev._sleep(200 * MILLISECOND)
        tensor.add_(1)
        tensor.__dlpack__(stream=-1)
        assert torch.rustdev.default_stream(1).query(), "-1 orders nothing"
        tensor.__dlpack__(stream=None)
        assert not torch.rustdev.default_stream(1).query(), "None stands for the default stream"
    torch.rustdev.synchronize(1)
    with pytest.raises(TypeError, match="stream must be"):
        tensor.__dlpack__(stream="1")
    with pytest.raises(RuntimeError, match="stream"):
        tensor.__dlpack__(stream=12345)


def test_dlpack_refuses_what_it_cannot_express() -> None:
    with pytest.raises(BufferError, match="require gradient"):
        torch.ones(2, device="rustdev", requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match="conjugate bit"):
        torch.ones(2, dtype=torch.complex64, device="rustdev").conj().__dlpack__()
    with pytest.raises(BufferError, match="layout other than"):
        torch.eye(2, device="rustdev").to_sparse().__dlpack__()


def test_numpy_takes_tensors_through_dlpack_by_a_copy_to_the_cpu() -> None:
    tensor = torch.arange(6.0, device="rustdev:1").reshape(2, 3)
    array = np.from_dlpack(tensor, device="cpu")
    assert array.tolist() == tensor.tolist()
    with pytest.raises((RuntimeError, BufferError), match=r"[Uu]nsupported device"):
        np.from_dlpack(tensor)
    assert torch.from_dlpack(array, device="rustdev:1").tolist() == tensor.tolist()
    assert torch.from_dlpack(np.arange(3)).device.type == "cpu"


@pytest.mark.skipif(not hasattr(dlpack, "ReadOnlyTensorWrapper"), reason="ReadOnlyTensorWrapper came with torch 2.15")
@pytest.mark.parametrize("device", ["cpu", "rustdev:1"])
def test_read_only_wrappers_export(device: str) -> None:
    wrapper = dlpack.ReadOnlyTensorWrapper(torch.arange(3.0, device=device))
    assert wrapper.__dlpack_device__() == torch.ones(1, device=device).__dlpack_device__()
    assert "dltensor" in repr(wrapper.__dlpack__(max_version=(1, 0)))


CONVERSIONS: dict[str, Callable[[torch.Tensor], object]] = {
    "numpy": torch.Tensor.numpy,
    "asarray": np.asarray,
    "array": np.array,
    "__array__": lambda tensor: tensor.__array__(),
    "__array__ with a dtype": lambda tensor: np.asarray(tensor, dtype=np.float64),
    "ufunc": np.add.reduce,
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_numpy_is_refused_as_on_gpus(name: str) -> None:
    text = "can't convert rustdev:1 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
    with pytest.raises(TypeError, match=re.escape(text)):
        CONVERSIONS[name](torch.ones(3, device="rustdev:1"))


def test_numpy_by_force_and_back() -> None:
    tensor = torch.arange(3.0, device="rustdev", requires_grad=True)
    assert tensor.numpy(force=True).tolist() == [0.0, 1.0, 2.0]
    array = np.arange(4, dtype=np.float32)
    for made in (torch.tensor(array, device="rustdev"), torch.as_tensor(array, device="rustdev")):
        assert made.device == torch.device("rustdev:0")
        made.zero_()
    assert array.tolist() == [0.0, 1.0, 2.0, 3.0], "device memory is never shared with NumPy"
    torch.asarray(array, device="rustdev:1")


def test_the_gradient_of_fake_quantisation() -> None:
    def gradient(device: str) -> torch.Tensor:
        x = torch.linspace(-2, 2, 9).to(device).requires_grad_()
        return torch.autograd.grad(torch.fake_quantize_per_tensor_affine(x, 0.25, 0, -4, 4).square().sum(), x)[0]

    assert_same(gradient("rustdev"), gradient("cpu"), rtol=1e-6)


def quantised(device: str, per_channel: bool) -> torch.Tensor:
    values = torch.linspace(-1, 1, 12).reshape(3, 4).to(device)
    if per_channel:
        scales, zeros = torch.tensor([0.1, 0.2, 0.3], device=device), torch.tensor([1, 2, 3], device=device)
        return torch.quantize_per_channel(values, scales, zeros, 0, torch.qint8)
    return torch.quantize_per_tensor(values, 0.1, 10, torch.quint8)


QUANTISED: dict[str, Callable[[torch.Tensor], Any]] = {
    "dequantize": lambda q: q.dequantize(),
    "int_repr": lambda q: q.int_repr(),
    "qscheme": lambda q: q.qscheme(),
    "clone": lambda q: q.clone(),
    "select": lambda q: q[1].dequantize(),
    "to cpu": lambda q: q.cpu().dequantize().to(q.device),
    "to cpu and back": lambda q: q.cpu().to(q.device),
    "into another": lambda q: torch.empty_like(q).copy_(q),
    "numbers into it": lambda q: q.clone().copy_(torch.full((3, 4), 0.4, device=q.device)),
    "numbers of the CPU into it": lambda q: q.clone().copy_(torch.full((3, 4), 0.4)),
    "equal": lambda q: torch.equal(q, q.clone()),
    "reshape": lambda q: q.reshape(3, 2, 2).dequantize(),
}


@pytest.mark.parametrize("name", QUANTISED)
@pytest.mark.parametrize("per_channel", [False, True])
def test_quantised(name: str, per_channel: bool) -> None:
    source = quantised("cpu", per_channel)
    expected = QUANTISED[name](source)
    assert_same(QUANTISED[name](quantised("rustdev", per_channel)), expected)
    moved = source.to("rustdev:1").to("rustdev:0")
    assert_same(QUANTISED[name](moved), expected)
    with pytest.raises(RuntimeError, match="Tensors with the same shape"):
        moved.copy_(torch.ones(4, device="rustdev"))
    with pytest.raises(RuntimeError, match="kFloat as source Tensor"):
        moved.copy_(torch.ones(3, 4, dtype=torch.float64, device="rustdev"))


def test_an_empty_quantized_tensor_has_the_dtype_that_is_asked_for() -> None:
    like = torch.quantize_per_tensor(torch.rand(3), 0.1, 0, torch.quint8).to("rustdev")
    made = torch.empty_quantized((3,), like, dtype=torch.qint8)
    made.copy_(torch.tensor([0.1, 0.2, -0.3], device="rustdev"))
    assert made.dtype is torch.qint8
    assert made.cpu().int_repr().tolist() == [1, 2, -3]
