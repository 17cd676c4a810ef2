"""Checks of memory, of random generators and of serialization."""

import gc
import importlib.util
import io
import tempfile
from pathlib import Path

import torch

from rustdev_conformance.checks import Absent, Device, check, claimed

MIB = 1 << 20


@check("memory/statistics")
def statistics(device: Device) -> None:
    device.need_accelerator()
    with claimed("memory statistics", device, "memory_allocated", "memory_stats"):
        before = torch.accelerator.memory_allocated()
    value = torch.empty(4 * MIB, dtype=torch.uint8, device=device.name)
    assert torch.accelerator.memory_allocated() - before >= 4 * MIB, "memory_allocated() does not have a new tensor"
    assert torch.accelerator.memory_reserved() >= torch.accelerator.memory_allocated()
    torch.accelerator.reset_peak_memory_stats()
    del value
    gc.collect()
    device.synchronize()
    after = torch.accelerator.memory_allocated()
    assert after == before, f"memory_allocated() is {after - before} B more after the tensor's end"
    assert torch.accelerator.max_memory_allocated() >= 4 * MIB
    assert torch.accelerator.memory_stats()


@check("memory/empty_cache")
def empty_cache(device: Device) -> None:
    device.need_accelerator()
    with claimed("memory statistics", device, "memory_allocated", "memory_stats"):
        torch.accelerator.memory_reserved()
    value = torch.empty(64 * MIB, dtype=torch.uint8, device=device.name)
    del value
    device.synchronize()
    with claimed("empty_cache", device, "empty_cache"):
        torch.accelerator.empty_cache()
    assert torch.accelerator.memory_reserved() < torch.accelerator.memory_allocated() + 64 * MIB, "the cache is kept"


@check("memory/get_memory_info")
def get_memory_info(device: Device) -> str:
    device.need_accelerator()
    with claimed("get_memory_info", device, "mem_get_info"):
        free, total = torch.accelerator.get_memory_info()
    assert 0 <= free <= total, (free, total)
    return f"{free // MIB} MiB free of {total // MIB} MiB"


@check("memory/out_of_memory")
def out_of_memory(device: Device) -> None:
    if device.name == "cpu":
        raise Absent("the CPU raises RuntimeError")
    try:
        torch.empty(1 << 50, dtype=torch.uint8, device=device.name)
    except torch.OutOfMemoryError:
        assert torch.ones(4, device=device.name).sum().item() == 4, "the device does not work afterwards"
        return
    except RuntimeError as error:
        raise AssertionError(f"{type(error).__name__} is raised, not torch.OutOfMemoryError: {str(error)[:200]}") from error
    raise AssertionError("a tensor of 1 PiB was made")


@check("memory/reuse")
def reuse(device: Device) -> None:
    for number in range(200):
        value = torch.full((MIB,), float(number), device=device.name)
        assert number % 50 or value[-1].item() == number
    del value


@check("memory/pin_memory")
def pin_memory(device: Device) -> None:
    device.need_accelerator()
    with claimed("pin_memory", device):
        host = torch.arange(1000.0).pin_memory()
    assert host.is_pinned()
    assert not torch.ones(2).is_pinned()
    there = host.to(device.name, non_blocking=True)
    device.synchronize()
    assert torch.equal(there.cpu(), host)


def generator_of(device: Device) -> torch.Generator:
    """Return a generator of the device."""
    with claimed("generators", device, "default_generators"):
        return torch.Generator(device=device.name)


@check("random/seed")
def seed(device: Device) -> None:
    results = []
    for number in (1, 1, 2):
        torch.manual_seed(number)
        results.append(torch.rand(1000, device=device.name).cpu())
    assert torch.equal(results[0], results[1]), "the same seed gives other numbers"
    assert not torch.equal(results[0], results[2]), "another seed gives the same numbers"
    assert not torch.equal(torch.rand(1000, device=device.name).cpu(), results[2]), "the next numbers are the same"


@check("random/state")
def state(device: Device) -> None:
    get, put = device.function("get_rng_state"), device.function("set_rng_state")
    torch.manual_seed(3)
    torch.rand(7, device=device.name)
    kept = get()
    first = torch.randn(100, device=device.name).cpu()
    put(kept)
    assert torch.equal(torch.randn(100, device=device.name).cpu(), first), "a state that is set again gives other numbers"


@check("random/generator")
def generator(device: Device) -> None:
    one, other = generator_of(device), generator_of(device)
    one.manual_seed(5)
    other.manual_seed(5)
    assert one.initial_seed() == 5
    assert one.device.type == device.name
    numbers = [torch.randint(1000, (100,), device=device.name, generator=it).cpu() for it in (one, other)]
    assert torch.equal(*numbers), "generators of one seed give other numbers"
    kept = one.get_state()
    first = torch.rand(10, device=device.name, generator=one).cpu()
    one.set_state(kept)
    assert torch.equal(torch.rand(10, device=device.name, generator=one).cpu(), first)


@check("random/fork_rng")
def fork_rng(device: Device) -> None:
    device.function("get_rng_state")
    torch.manual_seed(1)
    with torch.random.fork_rng(devices=[0], device_type=device.name):
        torch.rand(10, device=device.name)
    inside = torch.rand(10, device=device.name).cpu()
    torch.manual_seed(1)
    assert torch.equal(torch.rand(10, device=device.name).cpu(), inside), "fork_rng does not put the state back"


@check("random/distributions")
def distributions(device: Device) -> None:
    torch.manual_seed(0)
    count = 100_000
    normal, uniform = torch.randn(count, device=device.name).cpu(), torch.rand(count, device=device.name).cpu()
    assert abs(normal.mean()) < 0.03, f"the mean of normal numbers is {normal.mean()}"
    assert abs(normal.std() - 1) < 0.03, f"the deviation of normal numbers is {normal.std()}"
    assert uniform.min() >= 0, uniform.min()
    assert uniform.max() < 1, uniform.max()
    assert abs(uniform.mean() - 0.5) < 0.01, f"the mean of uniform numbers is {uniform.mean()}"
    drawn = torch.empty(count, device=device.name).bernoulli_(0.3).mean().item()
    assert abs(drawn - 0.3) < 0.01, f"{drawn} of bernoulli_(0.3)"
    assert torch.randperm(1000, device=device.name).sort().values.cpu().tolist() == list(range(1000))


@check("serialization/save_and_load")
def save_and_load(device: Device) -> None:
    value = torch.arange(6.0).to(device.name)
    file = io.BytesIO()
    torch.save({"value": value, "view": value[2:]}, file)
    for target, expected in (
        (None, device.name),
        ("cpu", "cpu"),
        (device.name, device.name),
        (torch.device(device.name), device.name),
    ):
        file.seek(0)
        loaded = torch.load(file, map_location=target)
        assert loaded["value"].device.type == expected, f"on {loaded['value'].device} with map_location={target!r}"
        assert loaded["view"].cpu().tolist() == [2, 3, 4, 5]
    shared = loaded["value"].untyped_storage().data_ptr() == loaded["view"].untyped_storage().data_ptr()
    assert shared, "a tensor and its view have separate memory after torch.load"


@check("serialization/map_location")
def map_location(device: Device) -> None:
    module = torch.nn.Linear(3, 2)
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    state = torch.load(file, map_location=device.name, weights_only=True)
    there = torch.nn.Linear(3, 2, device=device.name)
    there.load_state_dict(state)
    assert {it.device.type for it in state.values()} == {device.name}
    assert torch.equal(there.weight.cpu(), module.weight)


@check("serialization/safetensors")
def safetensors(device: Device) -> None:
    if importlib.util.find_spec("safetensors") is None:
        raise Absent("safetensors is not installed")
    from safetensors.torch import load_file, save_file

    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory, "tensors"))
        save_file({"value": torch.arange(6.0).to(device.name)}, path)
        with claimed("safetensors on the device", device, refusal=r"device \w+ is invalid"):
            loaded = load_file(path, device=device.name)
    assert loaded["value"].device.type == device.name
    assert loaded["value"].cpu().tolist() == [0, 1, 2, 3, 4, 5]
