"""Models divided among ranks: tensor parallelism, pipelines, checkpoints, functional collectives."""

import copy
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.checkpoint as checkpoint
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from workers import Workers, device


def mesh() -> DeviceMesh:
    return init_device_mesh("rustdev", (dist.get_world_size(),))


def tensor_parallel() -> None:
    torch.manual_seed(2)
    reference = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    model = copy.deepcopy(reference).to(device())
    parallelize_module(model, mesh(), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x = torch.randn(5, 6)
    output, wanted = model(x.to(device())), reference(x)
    torch.testing.assert_close(output.cpu(), wanted)
    output.square().sum().backward()
    wanted.square().sum().backward()
    for parameter, expected in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad.full_tensor().cpu(), expected.grad, rtol=1e-4, atol=1e-5)


def pipelines() -> None:
    torch.manual_seed(4)
    reference = nn.Sequential(*(nn.Linear(6, 6) for _ in range(dist.get_world_size())))
    x, y = torch.randn(8, 6), torch.randn(8, 6)
    nn.functional.mse_loss(reference(x), y).backward()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for schedule_class in (ScheduleGPipe, Schedule1F1B):
        part = copy.deepcopy(reference[rank]).to(device())
        part.zero_grad()
        stage = PipelineStage(part, rank, ranks, device())
        schedule = schedule_class(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
        if rank == 0:
            schedule.step(x.to(device()))
        else:
            losses: list[Tensor] = []
            output = schedule.step(target=y.to(device()), losses=losses)
            torch.testing.assert_close(output.cpu(), reference(x))
            torch.testing.assert_close(torch.stack(losses).mean().cpu(), nn.functional.mse_loss(reference(x), y))
        for parameter, wanted in zip(part.parameters(), reference[rank].parameters(), strict=True):
            torch.testing.assert_close(parameter.grad.cpu(), wanted.grad, rtol=1e-4, atol=1e-5)


def trained(seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3)).to(device())
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 5, device=device())).sum().backward()
    optimizer.step()
    return model, optimizer


def checkpoints(path: str) -> None:
    model, optimizer = trained(1)
    weights, state = get_state_dict(model, optimizer)
    checkpoint.save({"model": weights, "optimizer": state}, checkpoint_id=path)
    wanted = [parameter.full_tensor().clone() for parameter in model.parameters()]
    moments = [optimizer.state[parameter]["exp_avg"].full_tensor() for parameter in model.parameters()]

    other, other_optimizer = trained(2)
    weights, state = get_state_dict(other, other_optimizer)
    checkpoint.load({"model": weights, "optimizer": state}, checkpoint_id=path)
    set_state_dict(other, other_optimizer, model_state_dict=weights, optim_state_dict=state)
    for parameter, weight, moment in zip(other.parameters(), wanted, moments, strict=True):
        assert torch.equal(parameter.full_tensor(), weight)
        assert torch.equal(other_optimizer.state[parameter]["exp_avg"].full_tensor(), moment)


def functional_collectives() -> None:
    warnings.simplefilter("ignore", FutureWarning)  # some have other names in torch 2.15
    rank, ranks = dist.get_rank(), dist.get_world_size()
    group = dist.group.WORLD
    tensor = torch.arange(4.0, device=device()) + rank
    total = sum(torch.arange(4.0) + other for other in range(ranks))
    before = tensor.clone()
    assert torch.equal(functional.all_reduce(tensor, "sum", group).cpu(), total)
    assert torch.equal(tensor, before)
    assert torch.equal(functional.all_reduce(tensor, "avg", group).cpu(), total / ranks)
    gathered = functional.all_gather_tensor(tensor, 0, group)
    assert torch.equal(gathered.cpu(), torch.cat([torch.arange(4.0) + other for other in range(ranks)]))
    assert torch.equal(functional.reduce_scatter_tensor(gathered * 1, "sum", 0, group).cpu(), tensor.cpu() * ranks)
    exchanged = functional.all_to_all_single(tensor, None, None, group)
    wanted = torch.cat([(torch.arange(4.0) + other).chunk(ranks)[rank] for other in range(ranks)])
    assert torch.equal(exchanged.cpu(), wanted)
    assert torch.equal(functional.broadcast(tensor, 1, group).cpu(), torch.arange(4.0) + 1)
    both = functional.all_reduce_coalesced([tensor, tensor * 2], "sum", group)
    assert [each.tolist() for each in both] == [total.tolist(), (total * 2).tolist()]
    parts = functional.all_gather_into_tensor_coalesced([tensor, tensor * 2], group)
    assert torch.equal(parts[1].cpu(), gathered.cpu() * 2)


MODEL_PARALLEL = (
    tensor_parallel,
    pipelines,
    functional_collectives,
)


@pytest.mark.parametrize("check", MODEL_PARALLEL, ids=lambda function: function.__name__)
def test_model_parallel(pair: Workers, check: Callable[[], None]) -> None:
    pair.run(check)


def test_checkpoint_comes_back(pair: Workers, tmp_path: Path) -> None:
    pair.run(checkpoints, str(tmp_path / "checkpoint"))
