"""DeepSpeed: ZeRO 1 to 3 and pipelines by its accelerator for the device and as "cuda", and the operator of its Adam."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

if TYPE_CHECKING:
    from conftest import Programs

ENABLE = "import rustdev.integrations\nrustdev.integrations.enable()\n"

#: Training in two processes with each of CONFIGURATIONS, and by PyTorch alone on its CPU device, which prints the losses.
TRAIN = """
import json
import deepspeed, torch
from deepspeed.pipe import PipelineModule
from torch import distributed as dist, nn


def layers():
    torch.manual_seed(0)
    return [nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 4)]


numbers = torch.Generator().manual_seed(1)
points, classes = torch.randn(6, 8, 8, generator=numbers), torch.randint(0, 4, (6, 8), generator=numbers)
loss_of = nn.functional.cross_entropy

deepspeed.init_distributed()
rank = dist.get_rank()
rows = slice(4 * rank, 4 * rank + 4)


def train(engine, name, steps):
    losses = []
    for index in steps:
        if name == "pipeline":
            halves = zip(points[index].split(4), classes[index].split(4))
            loss = engine.train_batch(iter([(x.to(engine.device), y.to(engine.device)) for x, y in halves]))
        else:
            output = engine(points[index, rows].to(engine.device, next(engine.module.parameters()).dtype))
            loss = loss_of(output.float(), classes[index, rows].to(engine.device))
            engine.backward(loss)
            engine.step()
            loss = loss.detach().clone()
            dist.all_reduce(loss, op=dist.ReduceOp.AVG)
        losses.append(loss.item())
    return losses


losses = {}
for name, options in CONFIGURATIONS.items():
    config = {"train_micro_batch_size_per_gpu": 4, "optimizer": OPTIMIZER, **options}
    model = PipelineModule(layers(), 2, loss_fn=loss_of) if name == "pipeline" else nn.Sequential(*layers())
    engine, *_ = deepspeed.initialize(model=model, config=config)
    losses[name] = train(engine, name, range(3))
    engine.save_checkpoint(name)
    train(engine, name, range(3, 6))
    engine.load_checkpoint(name)
    losses[name] += train(engine, name, range(3, 6))
    engine.destroy()

model = nn.Sequential(*layers())
optimizer = torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=0.1)
wanted = []
for x, y in zip(points, classes):
    loss = loss_of(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    wanted.append(loss.item())
if rank == 0:
    print("<<" + json.dumps([f"{engine.device} {dist.get_backend()}", wanted, losses]) + ">>", flush=True)
dist.destroy_process_group()
"""

ADAM = {"type": "AdamW", "params": {"lr": 1e-2, "weight_decay": 0.1}}


def zero(stage: int, **options: Any) -> dict[str, Any]:
    """Return a configuration of ZeRO that gathers all weights of stage 3 when they are used."""
    return {"zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0}, **options}


FLOAT32 = {"zero0": zero(0), "zero1": zero(1), "zero2": zero(2), "zero3": zero(3), "pipeline": {"gradient_accumulation_steps": 2}}
HALVES = {
    "bfloat16, zero2": zero(2, bf16={"enabled": True}, gradient_clipping=5.0),
    "bfloat16, zero3": zero(3, bf16={"enabled": True}),
    "float16, zero3": zero(3, fp16={"enabled": True, "initial_scale_power": 8}),
}


def losses(
    programs: Programs, start: str, configurations: dict[str, Any], optimizer: dict[str, Any], *module: str
) -> tuple[str, list[float], dict[str, list[float]]]:
    """Train, and return the device and the backend, the losses of PyTorch's CPU device, and those of the configurations."""
    code = f"{start}CONFIGURATIONS, OPTIMIZER = {configurations}, {optimizer}\n{TRAIN}"
    printed = programs.script(code, "-m", "torch.distributed.run", "--nproc-per-node", "2", *module)
    where, wanted, found = json.loads(printed.split("<<")[1].split(">>")[0])
    return where, wanted, found


def test_training_is_the_cpus(programs: Programs) -> None:
    where, wanted, found = losses(programs, ENABLE, FLOAT32, ADAM)
    assert where == "rustdev:0 rdccl"
    assert set(found) == set(FLOAT32)
    for name, values in found.items():
        assert values == pytest.approx(wanted, rel=1e-5), name


def test_training_in_16_bits(programs: Programs) -> None:
    where, wanted, found = losses(programs, ENABLE, HALVES, ADAM)
    assert where == "rustdev:0 rdccl"
    assert set(found) == set(HALVES)
    for name, values in found.items():
        assert values == pytest.approx(wanted, rel=1e-2), name
        assert values != pytest.approx(wanted, rel=1e-6), name


def test_training_as_cuda(programs: Programs) -> None:
    # DeepSpeed's own kernel of Adam for CUDA cannot be compiled.
    adam = {**ADAM, "params": {**ADAM["params"], "torch_adam": True}}
    where, wanted, found = losses(programs, "", FLOAT32, adam, "-m", "rustdev.as_cuda")
    assert where == "cuda:0 nccl"
    assert set(found) == set(FLOAT32)
    for name, values in found.items():
        assert values == pytest.approx(wanted, rel=1e-5), name


def test_another_accelerator_stays(programs: Programs) -> None:
    code = f"import os\nos.environ['DS_ACCELERATOR'] = 'cpu'\n{ENABLE}import deepspeed\n"
    assert "<cpu>" in programs.script(code + "print(f'<{deepspeed.get_accelerator().device_name()}>')")


@pytest.mark.parametrize("is_decoupled", [True, False])
def test_adam(is_decoupled: bool) -> None:
    from deepspeed.ops.adam import FusedAdam

    torch.manual_seed(0)
    model = nn.Linear(5, 3)
    ours = nn.Linear(5, 3, device="rustdev")
    ours.load_state_dict(model.state_dict())
    wanted = (torch.optim.AdamW if is_decoupled else torch.optim.Adam)(model.parameters(), 0.1, weight_decay=0.1)
    optimizer = FusedAdam(ours.parameters(), 0.1, weight_decay=0.1, adam_w_mode=is_decoupled)
    for _ in range(4):
        x = torch.randn(7, 5)
        for net, step in ((model, wanted), (ours, optimizer)):
            step.zero_grad()
            net(x.to(net.weight.device)).square().sum().backward()
            step.step()
    torch.testing.assert_close(ours.weight.cpu(), model.weight)


def test_adam_without_corrections() -> None:
    from deepspeed.ops.adam import FusedAdam

    weight = nn.Parameter(torch.ones(3, device="rustdev"))
    weight.grad = torch.full((3,), 2.0, device="rustdev")
    FusedAdam([weight], 0.1, bias_correction=False, betas=(0.5, 0.75)).step()
    # The means are (1 - 0.5) * 2 and (1 - 0.75) * 2 ** 2, as they start at zero.
    torch.testing.assert_close(weight.detach().cpu(), torch.full((3,), 1 - 0.1 * 1.0 / 1.0))


def test_operators_that_are_not_there() -> None:
    from deepspeed.ops.op_builder import FusedLambBuilder

    with pytest.raises(ValueError, match="DeepSpeed has no such operator for the device rustdev"):
        FusedLambBuilder().load()


def test_the_accelerator() -> None:
    from deepspeed import get_accelerator

    accelerator = get_accelerator()
    assert (accelerator.device_name(), accelerator.device_name(1), accelerator.current_device_name()) == (
        "rustdev", "rustdev:1", "rustdev:0"
    )  # fmt: skip
    assert accelerator.device(1) == torch.device("rustdev:1")
    assert accelerator.on_accelerator(torch.ones(1, device="rustdev"))
    assert not accelerator.on_accelerator(torch.ones(1))
    assert 0 < accelerator.available_memory() <= accelerator.total_memory()
    accelerator.manual_seed(3)
    state = accelerator.get_rng_state()
    drawn = torch.rand(3, device="rustdev")
    accelerator.set_rng_state(state)
    assert torch.equal(torch.rand(3, device="rustdev"), drawn)
    assert accelerator.FloatTensor([1, 2]).device.type == "rustdev"
    with accelerator.stream(accelerator.Stream()):
        assert accelerator.current_stream() != accelerator.default_stream()
    with pytest.raises(ValueError, match=r"there is no backend 'none'; there are .*inductor"):
        accelerator.set_compile_backend("none")
    assert accelerator.pin_memory(torch.ones(2)).is_pinned()
