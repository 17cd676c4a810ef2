"""Checks of devices and of tensors on them: names, current devices, copies, printing, contexts, mixed devices."""

import copy
import pickle
from typing import TYPE_CHECKING

import torch

from rustdev_conformance.checks import Absent, Device, check, claimed

if TYPE_CHECKING:
    from collections.abc import Callable

DTYPES = (torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32)


def sample(device: Device) -> torch.Tensor:
    """Return numbers of the CPU and their copy on the device."""
    return torch.arange(12.0).reshape(3, 4).to(device.name)


@check("device/accelerator")
def accelerator(device: Device) -> None:
    device.need_accelerator()
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() >= 1
    assert 0 <= torch.accelerator.current_device_index() < torch.accelerator.device_count()
    with torch.accelerator.device_index(0):
        assert torch.accelerator.current_device_index() == 0


@check("device/synchronize")
def synchronize(device: Device) -> None:
    device.need_accelerator()
    with claimed("torch.accelerator.synchronize", device, "synchronize"):
        torch.accelerator.synchronize()


@check("device/module")
def module(device: Device) -> None:
    count = device.function("device_count")()
    assert device.function("is_available")() is True
    assert isinstance(count, int)
    assert count >= 1, f"device_count() is {count}"


@check("device/current_device")
def current_device(device: Device) -> str:
    get, put, count = (device.function(it) for it in ("current_device", "set_device", "device_count"))
    before = get()
    last = count() - 1
    try:
        if isinstance(before, int):
            put(last)
            assert get() == last, f"current_device() is {get()} after set_device({last})"
            made = torch.empty(1, device=device.name)
            assert made.device.index == last, f"a new tensor is on {made.device} after set_device({last})"
    finally:
        put(before)
    return f"{last + 1} devices"


@check("device/index_out_of_range")
def index_out_of_range(device: Device) -> None:
    if device.name == "cpu":
        raise Absent("the CPU has one device")
    count = device.function("device_count")()
    try:
        torch.empty(1, device=f"{device.name}:{count}")
    except (RuntimeError, ValueError, AssertionError, IndexError):
        return
    raise AssertionError(f"a tensor on {device.name}:{count} was made, of {count} devices")


@check("device/second_device")
def second_device(device: Device) -> None:
    if device.name == "cpu" or device.function("device_count")() < 2:
        raise Absent("there is one device")
    first, second = (torch.arange(4.0, device=f"{device.name}:{index}") for index in (0, 1))
    assert second.device.index == 1
    assert second.to(first.device).cpu().tolist() == [0, 1, 2, 3]
    assert (second * 2).device == second.device
    try:
        first + second
    except RuntimeError:
        return
    raise AssertionError("tensors of two devices were added")


@check("device/context")
def context(device: Device) -> None:
    with torch.device(device.name):
        assert torch.zeros(2).device.type == device.name
        assert torch.nn.Linear(2, 2).weight.device.type == device.name
    assert torch.zeros(2).device.type == "cpu"


@check("device/set_default_device")
def set_default_device(device: Device) -> None:
    torch.set_default_device(device.name)
    try:
        assert torch.ones(2).device.type == device.name
        assert torch.get_default_device().type == device.name
    finally:
        torch.set_default_device(None)


@check("device/generated_methods")
def generated_methods(device: Device) -> None:
    move = getattr(torch.Tensor, device.name, None)
    if move is None:
        raise Absent(f"there is no Tensor.{device.name}()")
    assert move(torch.ones(2)).device.type == device.name
    assert getattr(torch.nn.Linear(2, 2), device.name)().weight.device.type == device.name
    if hasattr(torch.Tensor, f"is_{device.name}"):
        assert getattr(sample(device), f"is_{device.name}")
        assert getattr(torch.ones(1), f"is_{device.name}") is (device.name == "cpu")


@check("device/properties")
def properties(device: Device) -> str:
    device.need_accelerator()
    with claimed("torch.accelerator.get_device_capability", device, "get_device_capability"):
        found = torch.accelerator.get_device_capability()
    return f"dtypes: {len(found['supported_dtypes'])}" if "supported_dtypes" in found else str(found)[:80]


@check("tensors/copies")
def copies(device: Device) -> None:
    for dtype in DTYPES:
        host = torch.arange(24).reshape(2, 3, 4).to(dtype)
        there = host.to(device.name)
        assert there.device.type == device.name
        assert there.dtype is dtype
        assert torch.equal(there.cpu(), host), f"{dtype} is not the same after a copy there and back"
        back = torch.empty_like(host)
        back.copy_(there)
        assert torch.equal(back, host)
        assert torch.equal(there.clone().cpu(), host)


@check("tensors/copies_of_views")
def copies_of_views(device: Device) -> None:
    host = torch.arange(60.0).reshape(3, 4, 5)
    there = host.to(device.name)
    views: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda it: it.transpose(0, 2), lambda it: it[:, 1:3], lambda it: it[..., ::2], lambda it: it[1:, None].expand(2, 3, 4, 5),
        lambda it: it.permute(2, 0, 1)[1:], lambda it: it.diagonal(),
    ]  # fmt: skip
    for view in views:
        assert torch.equal(view(there).cpu(), view(host)), f"a copy of a view of {tuple(view(host).shape)} differs"
    target = torch.zeros(4, 6, device=device.name)
    target[1:, ::2].copy_(host[..., 0][:, :3])
    expected = torch.zeros(4, 6)
    expected[1:, ::2].copy_(host[..., 0][:, :3])
    assert torch.equal(target.cpu(), expected), "a copy into a view differs"


@check("tensors/conversions")
def conversions(device: Device) -> None:
    host = torch.tensor([-3.7, -0.5, 0.0, 0.5, 3.7])
    for dtype in (torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool):
        assert torch.equal(host.to(device.name).to(dtype).cpu(), host.to(dtype)), dtype
        assert torch.equal(host.to(device.name, dtype).cpu(), host.to(dtype)), f"{dtype} with a copy"


@check("tensors/non_blocking")
def non_blocking(device: Device) -> None:
    host = torch.arange(1000.0)
    there = host.to(device.name, non_blocking=True) + 1
    back = there.to("cpu", non_blocking=True)
    device.synchronize()
    assert torch.equal(back, host + 1)


@check("tensors/host_values")
def host_values(device: Device) -> None:
    value = sample(device)
    assert value.sum().item() == 66
    assert value[1].tolist() == [4, 5, 6, 7]
    assert value.cpu().numpy().shape == (3, 4)
    assert bool(value[0, 1] == 1)
    assert int(value[2, 3]) == 11
    try:
        value.sum().numpy() if device.name != "cpu" else value.item()
    except (TypeError, RuntimeError, ValueError):
        return
    raise AssertionError("what is no host memory became an array, or a number of 12 elements")


@check("tensors/printing")
def printing(device: Device) -> None:
    shown = repr(torch.tensor([1.5, float("nan"), -2.0], device=device.name))
    assert "1.5000" in shown, shown
    assert "nan" in shown, shown
    assert device.name == "cpu" or f"device='{device.name}" in shown, shown
    assert "size=(0,)" in repr(torch.empty(0, device=device.name)) or "[]" in repr(torch.empty(0, device=device.name))


@check("tensors/deepcopy")
def deepcopy(device: Device) -> None:
    value = sample(device).requires_grad_()
    made = copy.deepcopy(value)
    assert made.device == value.device
    assert made.requires_grad
    with torch.no_grad():
        made.add_(1)
    assert value[0, 0].item() == 0, "a deep copy shares memory"
    module = copy.deepcopy(torch.nn.Linear(2, 2).to(device.name))
    assert module.weight.device.type == device.name


@check("tensors/pickle")
def pickled(device: Device) -> None:
    made = pickle.loads(pickle.dumps(sample(device)))
    assert made.device.type == device.name
    assert made.sum().item() == 66


@check("tensors/storage")
def storage(device: Device) -> None:
    value = sample(device)
    memory = value.untyped_storage()
    assert memory.device.type == device.name
    assert memory.nbytes() >= 48
    assert value[1:].untyped_storage().data_ptr() == memory.data_ptr()
    assert torch.equal(torch.empty(0, device=device.name).set_(memory, 4, (2,), (1,)).cpu(), torch.tensor([4.0, 5.0]))
    value.resize_(5, 4)
    assert value.shape == (5, 4)
    assert value[:3].sum().item() == 66, "resize_ loses what was there"


@check("tensors/mixed_devices")
def mixed_devices(device: Device) -> None:
    if device.name == "cpu":
        raise Absent("the CPU is the other device")
    value, host = sample(device), torch.ones(3, 4)
    assert (value + torch.tensor(1.0)).sum().item() == 78, "a number of the CPU may be added"
    for mixed in (torch.add, torch.mul, torch.maximum, torch.matmul, lambda one, other: torch.cat([one, other])):
        try:
            mixed(value, host.T if mixed is torch.matmul else host)
        except RuntimeError:
            continue
        raise AssertionError("an operator took tensors of the device and of the CPU")


@check("tensors/parameters")
def parameters(device: Device) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    identity = [id(it) for it in module.parameters()]
    module.to(device.name)
    assert {it.device.type for it in (*module.parameters(), *module.buffers())} == {device.name}
    assert identity == [id(it) for it in module.parameters()] or torch.__future__.get_swap_module_params_on_conversion()
    assert isinstance(module[0].weight, torch.nn.Parameter)


@check("tensors/memory_format")
def memory_format(device: Device) -> None:
    host = torch.arange(48.0).reshape(1, 3, 4, 4).to(memory_format=torch.channels_last)
    there = host.to(device.name)
    assert there.stride() == host.stride(), f"strides {there.stride()} after a copy of channels last, {host.stride()} before"
    assert there.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(there.contiguous().cpu(), host.contiguous())


@check("tensors/empty")
def empty(device: Device) -> None:
    for size in ((0,), (0, 3), (2, 0, 4)):
        value = torch.empty(size, device=device.name)
        assert value.cpu().shape == size
        assert (value + 1).shape == size
        assert value.sum().item() == 0
    assert torch.tensor(3.0, device=device.name).mul(2).item() == 6
