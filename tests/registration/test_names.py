"""The names that PyTorch generates for the device, the device module, and the error of a slot that is taken."""

import platform
import sys
import warnings

import children
import pytest
import torch
from torch import nn
from torch.utils.backend_registration import _get_custom_mod_func

#: What PyTorch, its libraries and its tests look for in a device module.
PROTOCOL = (
    "_exchange_device", "_is_in_bad_fork", "_lazy_init", "_maybe_exchange_device", "Event", "Stream", "current_device",
    "current_stream", "default_generators", "device", "device_count", "device_of", "empty_cache", "get_amp_supported_dtype",
    "get_device_capability", "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all", "initial_seed",
    "is_available", "is_bf16_supported", "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated", "mem_get_info",
    "memory_allocated", "memory_stats", "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_rng_state",
    "set_rng_state_all", "set_stream", "stream", "synchronize",
)  # fmt: skip


@pytest.mark.parametrize("device", [None, 1, "rustdev:1", torch.device("rustdev", 1), torch.device("rustdev")], ids=str)
def test_tensors_move(device: object) -> None:
    source = torch.arange(6.0).reshape(2, 3)
    moved = source.rustdev() if device is None else source.rustdev(device)
    assert moved.device.index == (1 if "1" in str(device) else 0)
    assert (source.is_rustdev, moved.is_rustdev) == (False, True)
    assert torch.equal(moved.cpu(), source)
    assert moved.rustdev(moved.device) is moved


def test_tensors_move_to_the_current_device() -> None:
    with torch.rustdev.device(1):
        assert torch.ones(1).rustdev().device.index == 1
        assert torch.ones(1).rustdev("rustdev").device.index == 1
        assert nn.Linear(1, 1).rustdev().weight.device.index == 1
        assert torch.ones(1).untyped_storage().rustdev().device.index == 1


def test_modules_move_with_buffers_and_gradients() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    module(torch.ones(3, 2)).sum().backward()
    assert module.rustdev(1) is module
    tensors = [*module.parameters(), *module.buffers(), *(parameter.grad for parameter in module.parameters())]
    assert {tensor.device for tensor in tensors} == {torch.device("rustdev:1")}
    assert all(isinstance(parameter, nn.Parameter) for parameter in module.parameters())
    assert module.cpu()[0].weight.device.type == "cpu"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex128, torch.quint8, torch.quint4x2], ids=str)
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_typed_storages_move(dtype: torch.dtype) -> None:
    storage = torch.TypedStorage([1, 0, 1] if not str(dtype).startswith("torch.q") else 4, dtype=dtype)
    moved = storage.rustdev(1)
    assert (storage.is_rustdev, moved.is_rustdev, moved.dtype, moved.device) == (False, True, dtype, torch.device("rustdev:1"))
    assert moved.untyped().tolist() == storage.untyped().tolist()
    assert moved.untyped().rustdev(1).data_ptr() == moved.data_ptr()


def test_other_objects_move() -> None:
    source = torch.arange(24.0).reshape(1, 2, 3, 4)
    moved = source.rustdev(1, memory_format=torch.channels_last)
    assert moved.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(moved.cpu(), source)
    packed = nn.utils.rnn.pack_sequence([torch.arange(3.0).reshape(3, 1), torch.ones(1, 1)])
    assert (packed.is_rustdev, packed.rustdev().is_rustdev) == (False, True)
    assert packed.rustdev(device="rustdev:1").data.device == torch.device("rustdev:1")
    assert torch.arange(3.0).type("torch.rustdev.DoubleTensor").type() == "torch.rustdev.DoubleTensor"
    for call, text in (
        (lambda: torch.ones(1).rustdev("cpu"), "Invalid device, must be rustdev device"),
        (lambda: torch.ones(1).rustdev(7), "invalid device ordinal 7"),
        (lambda: nn.Linear(1, 1).rustdev(torch.device("meta")), "Invalid device, must be rustdev device"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()


def test_a_slot_that_is_taken_refuses_us() -> None:
    program = "import torch; torch.utils.rename_privateuse1_backend('other'); import rustdev"
    result = children.run(program, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert result.returncode != 0
    assert "ImportError: torch holds one extension device at a time, and it is other already" in result.stderr


def test_pytorch_reaches_the_device_module() -> None:
    import rustdev

    assert torch.get_device_module() is torch.get_device_module("rustdev:1") is torch.rustdev is rustdev
    assert sys.modules["torch.rustdev"] is rustdev
    assert _get_custom_mod_func("device_count") is rustdev.device_count
    assert _get_custom_mod_func("device_count")() == 2
    with pytest.raises(RuntimeError, match=r"torch.rustdev.no_such_thing.*_register_device_module"):
        _get_custom_mod_func("no_such_thing")
    missing = [name for name in PROTOCOL if not hasattr(rustdev, name)]
    assert missing == []


def test_torch_names_the_device_everywhere() -> None:
    tensor = torch.ones(1, device="rustdev:1")
    assert str(tensor.device) == "rustdev:1"
    assert torch.device(type="rustdev", index=1) == torch.device(1)
    assert tensor.type() == "torch.rustdev.FloatTensor"
    assert str(torch._C._autograd.DeviceType.PrivateUse1).upper().endswith("RUSTDEV")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.accelerator.current_accelerator() == torch.device("rustdev")


def test_what_kernels_are_compiled_for() -> None:
    sets = torch.rustdev.get_arch_list()
    # All of them, or this processor's alone, by the build.
    assert sets
    assert set(sets) <= ({"neon"} if platform.machine() == "aarch64" else {"portable", "avx2", "avx512"})
    assert torch.rustdev.is_tf32_supported() is False
