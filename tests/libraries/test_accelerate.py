"""Hugging Face's accelerate: training, mixed precision, states, several processes, placement by memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from accelerate import Accelerator, dispatch_model, infer_auto_device_map
from accelerate.utils import get_max_memory
from conftest import forget_devices
from torch import nn

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Programs

ENABLE = "import rustdev.integrations\nrustdev.integrations.enable()\n"
TRAIN = """
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator()
torch.manual_seed(0)
model, points = torch.nn.Linear(4, 1), torch.randn(64, 4)
data = DataLoader(TensorDataset(points, points.sum(1, keepdim=True)), 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
for _ in range(20):
    for inputs, wanted in data:
        optimizer.zero_grad()
        accelerator.backward((model(inputs) - wanted).square().mean())
        optimizer.step()
"""


def train(accelerator: Accelerator, seen: list[torch.Tensor] | None = None) -> nn.Linear:
    """Fit a plane, put what the layer returns into a list, and return the layer."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 1))
    points = torch.randn(64, 4)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(points, points.sum(1, keepdim=True)), 16)
    if seen is not None:
        model[0].register_forward_hook(lambda module, inputs, output: seen.append(output.detach()))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    for _ in range(20):
        for inputs, wanted in data:
            optimizer.zero_grad()
            accelerator.backward((model(inputs) - wanted).square().mean())
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    return model[0]


def test_training_is_the_cpus() -> None:
    accelerator = Accelerator()
    assert accelerator.device.type == "rustdev"
    trained = train(accelerator)
    forget_devices()
    on_cpu = train(Accelerator(cpu=True))
    assert on_cpu.weight.device.type == "cpu"
    assert trained.weight.device.type == "rustdev"
    torch.testing.assert_close(trained.weight.cpu(), on_cpu.weight, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(trained.weight.cpu(), torch.ones(1, 4), rtol=0, atol=0.01)


def test_bfloat16() -> None:
    seen: list[torch.Tensor] = []
    model = train(Accelerator(mixed_precision="bf16"), seen)
    assert {(tensor.dtype, tensor.device.type) for tensor in seen} == {(torch.bfloat16, "rustdev")}
    assert model.weight.dtype == torch.float32
    torch.testing.assert_close(model.weight.cpu(), torch.ones(1, 4), rtol=0, atol=0.05)


def test_float16_is_refused() -> None:
    with pytest.raises(ValueError, match="fp16 mixed precision requires a device in"):
        Accelerator(mixed_precision="fp16")


def test_states_are_saved_and_loaded(tmp_path: Path) -> None:
    accelerator = Accelerator()
    model = train(accelerator)
    accelerator.save_state(str(tmp_path))
    weight = model.weight.detach().clone()
    state = torch.rustdev.get_rng_state()
    with torch.no_grad():
        model.weight.zero_()
    torch.rand(3, device="rustdev")
    accelerator.load_state(str(tmp_path))
    assert torch.equal(model.weight, weight)
    assert not torch.equal(torch.rustdev.get_rng_state(), state)  # accelerate keeps the states of the devices on its list


def test_memory_of_the_devices_is_counted() -> None:
    found = get_max_memory()
    assert list(found)[:2] == [0, 1]
    assert 0 < found[0] <= torch.rustdev.get_device_properties(0).total_memory
    assert "cpu" in found
    given: dict[Any, Any] = {"cpu": "1KB", 1: "2KB", 0: 5}
    assert get_max_memory(given) == {0: 5, 1: 2000, "cpu": 1000}


def test_a_model_is_spread_over_devices() -> None:
    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(4)))
    data = torch.randn(3, 16)
    wanted = model(data).detach()
    size = 4 * (16 * 16 + 16)
    positions = infer_auto_device_map(model, max_memory={0: 3 * size, 1: 100 * size})
    assert set(positions.values()) == {0, 1}
    spread = dispatch_model(model, positions)
    assert {parameter.device for parameter in spread.parameters()} == {torch.device("rustdev:0"), torch.device("rustdev:1")}
    torch.testing.assert_close(spread(data).detach().cpu(), wanted)


def test_the_variable_without_enabling(programs: Programs) -> None:
    programs.environment["ACCELERATE_TORCH_DEVICE"] = "rustdev:1"
    code = TRAIN.replace("Accelerator()", "Accelerator(cpu=True)") + "print(accelerator.device, model.weight.device)"
    assert programs.script(code).strip() == "rustdev:1 rustdev:1"


def test_the_example_learns(programs: Programs) -> None:
    assert "1 x rustdev (no)" in programs.example("accelerate_digits.py")


def test_several_processes(programs: Programs) -> None:
    report = """
from accelerate.utils import gather
weight = model.module.weight.detach()
same = gather(weight)
accelerator.save_state("state")
accelerator.wait_for_everyone()
with torch.no_grad():
    model.module.weight.zero_()
accelerator.load_state("state")
assert torch.equal(model.module.weight, same[:1]) and torch.equal(same[0], same[1])
print(f"<{accelerator.process_index} of {accelerator.num_processes} on {accelerator.device}, {type(model).__name__}>", flush=True)
assert (same - 1).abs().max().item() < 0.05
accelerator.end_training()
"""
    printed = programs.script(ENABLE + TRAIN + report, "-m", "torch.distributed.run", "--nproc-per-node", "2")
    for rank in (0, 1):
        assert f"<{rank} of 2 on rustdev:{rank}, DistributedDataParallel>" in printed


def test_the_launcher(programs: Programs) -> None:
    launcher = ("-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--mixed_precision", "no")
    report = 'print(f"<{accelerator.device}>", flush=True)\naccelerator.end_training()\n'
    printed = programs.script(ENABLE + TRAIN + report, *launcher)
    assert "<rustdev:0>" in printed
    assert "<rustdev:1>" in printed


def test_more_processes_than_devices_are_refused(programs: Programs) -> None:
    programs.environment["LOCAL_RANK"] = "2"
    printed = programs.script(ENABLE + "from accelerate import PartialState\nPartialState()\n", check=False)
    said = "invalid device ordinal 2: torch.rustdev.device_count() is 2 (RUSTDEV_DEVICE_COUNT)"
    assert printed.splitlines()[-1] == f"RuntimeError: {said}"
