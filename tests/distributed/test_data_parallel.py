"""Data parallelism: each rank has half of the batch, and gradients are those of one process with all of it, without a race."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel
from workers import Workers, device

BATCH = 8


class Network(nn.Module):
    """Two layers, and one that only some inputs use."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first = nn.Linear(6, width)
        self.second = nn.Linear(width, 3)
        self.sometimes = nn.Linear(width, width)

    def forward(self, x: Tensor, use_all: bool = True) -> Tensor:
        x = self.first(x).tanh()
        return self.second(self.sometimes(x) if use_all else x)


def network() -> Network:
    torch.manual_seed(3)
    return Network()


def batch(step: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(BATCH, 6, generator=generator), torch.randn(BATCH, 3, generator=generator)


def share(tensor: Tensor) -> Tensor:
    return tensor.chunk(dist.get_world_size())[dist.get_rank()].to(device())


def loss_of(model: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Tensor:
    return nn.functional.mse_loss(model(x, **options), y)


def expect_gradients(model: nn.Module, reference: nn.Module, **tolerance: float) -> None:
    for (name, parameter), wanted in zip(model.named_parameters(), reference.parameters(), strict=True):
        if wanted.grad is None:
            assert parameter.grad is None or not parameter.grad.any(), name
        else:
            torch.testing.assert_close(
                parameter.grad.cpu(), wanted.grad, msg=lambda text, name=name: f"{name}: {text}", **tolerance
            )


def ddp(**options: Any) -> DistributedDataParallel:
    return DistributedDataParallel(network().to(device()), device_ids=None, **options)


def gradients_with(options: dict[str, Any], steps: int = 3, use_all: bool = True) -> None:
    model, reference = ddp(**options), network()
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (model, reference)]
    for step in range(steps):
        x, y = batch(step)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss_of(model, share(x), share(y), use_all=use_all).backward()
        loss_of(reference, x, y, use_all=use_all).backward()
        expect_gradients(model.module, reference)
        for optimizer in optimizers:
            optimizer.step()


def plain() -> None:
    gradients_with({})


def several_buckets() -> None:
    gradients_with({"bucket_cap_mb": 0.0001, "gradient_as_bucket_view": True})


def unused_parameters() -> None:
    gradients_with({"find_unused_parameters": True}, use_all=False)


def bfloat16_hook() -> None:
    model, reference = ddp(), network()
    model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    x, y = batch()
    loss_of(model, share(x), share(y)).backward()
    loss_of(reference, x, y).backward()
    expect_gradients(model.module, reference, rtol=2e-2, atol=1e-3)
    grads = [parameter.grad.flatten() for parameter in model.parameters()]
    assert torch.equal(torch.cat(grads), torch.cat(grads).bfloat16().float())  # they did travel in bfloat16


def synchronised_batch_norm() -> None:
    torch.manual_seed(0)
    reference = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4))
    model = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(reference)).to(device())
    model = DistributedDataParallel(model)
    images = torch.randn(BATCH, 2, 6, 6)
    weights = torch.randn(BATCH, 4, 4, 4)
    output = model(share(images))
    (output * share(weights)).sum().backward()
    wanted = reference(images)
    (wanted * weights).sum().backward()
    torch.testing.assert_close(output.cpu(), wanted.chunk(dist.get_world_size())[dist.get_rank()], rtol=1e-4, atol=1e-5)
    for parameter, expected in zip(model.parameters(), reference.parameters(), strict=True):
        gradient = parameter.grad.cpu() * dist.get_world_size()  # DDP takes means, the loss is a sum
        torch.testing.assert_close(gradient, expected.grad, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(model.module[1].running_var.cpu(), reference[1].running_var)


def sharded(**options: Any) -> Network:
    model = network().to(device())
    fully_shard(model.first, **options)
    fully_shard(model, **options)
    return model


def fully_sharded() -> None:
    model, reference = sharded(), network()
    assert isinstance(model, FSDPModule)
    assert model.second.weight.to_local().numel() < model.second.weight.numel()
    optimizers = [torch.optim.AdamW(each.parameters(), lr=0.01) for each in (model, reference)]
    for step in range(4):
        x, y = batch(step)
        loss_of(model, share(x), share(y)).backward()
        loss_of(reference, x, y).backward()
        for parameter, wanted in zip(model.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(parameter.grad.full_tensor().cpu(), wanted.grad, rtol=1e-4, atol=1e-5)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    for parameter, wanted in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(parameter.full_tensor().cpu(), wanted, rtol=1e-3, atol=1e-4)


DATA_PARALLEL = (
    plain,
    several_buckets,
    unused_parameters,
    bfloat16_hook,
    synchronised_batch_norm,
    fully_sharded,
)


def watched_for_races(check: Callable[[], None]) -> None:
    with torch.rustdev.sanitizer(mode="error"):
        check()
        torch.rustdev.synchronize(device())
    assert [report.text for report in torch.rustdev.sanitizer_reports()] == []


@pytest.mark.parametrize("check", DATA_PARALLEL, ids=lambda function: function.__name__)
def test_data_parallel_without_a_race(pair: Workers, check: Callable[[], None]) -> None:
    pair.run(watched_for_races, check)
