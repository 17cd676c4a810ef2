"""Collectives in simulated time: one rank of a group whose other ranks do not exist, in a dry run."""

import json
from typing import Any

import pytest
from children import run

BEGIN = """
import json, sys, torch
import torch.distributed as dist

def group(ranks):
    dist.init_process_group("rdccl-dry", store=dist.HashStore(), rank=0, world_size=ranks)

def milliseconds(work):
    begin, end = (torch.Event("rustdev", enable_timing=True) for _ in range(2))
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)
"""


def simulate(program: str, *arguments: str, cluster: str = "") -> Any:
    environment = {"RUSTDEV_CLOCK": "profile", "RUSTDEV_PROFILE": "a100-80g", "RUSTDEV_COMPUTE": "none", "RUSTDEV_CLUSTER": cluster}
    return json.loads(run(BEGIN + program, *arguments, check=True, **environment).stdout)


COLLECTIVES = """
group(int(sys.argv[1]))
small, large = torch.empty(1 << 20, device="rustdev"), torch.empty((1 << 20) * int(sys.argv[1]), device="rustdev")
print(json.dumps([
    milliseconds(lambda: dist.all_gather_into_tensor(large, small)),
    milliseconds(lambda: dist.reduce_scatter_tensor(small, large)),
    milliseconds(lambda: dist.all_reduce(large)),
]))
"""


def test_collectives_take_the_time_of_their_links() -> None:
    gather, scatter, reduce = simulate(COLLECTIVES, "8")
    ideal = 7 * (1 << 22) / 300e9 * 1e3
    assert ideal / 0.9 < gather < ideal / 0.6
    assert scatter == pytest.approx(gather, rel=0.05)
    assert reduce == pytest.approx(2 * gather, rel=0.1)
    slower = simulate(COLLECTIVES, "8", cluster="inside:pcie4")
    assert slower[0] > 5 * gather
    assert simulate(COLLECTIVES, "16", cluster="between:eth10")[0] > 10 * gather


OVERLAP = """
group(8)
large, a = torch.empty(1 << 28, device="rustdev"), torch.empty(8192, 8192, device="rustdev", dtype=torch.float16)

def both(is_asynchronous):
    work = dist.all_reduce(large, async_op=is_asynchronous)
    torch.mm(a, a)
    if is_asynchronous:
        work.wait()

print(json.dumps([milliseconds(lambda: both(True)), milliseconds(lambda: both(False)),
                  torch.rustdev.simulated_time().devices[0].links * 1e3]))
"""


def test_an_asynchronous_collective_overlaps_with_kernels() -> None:
    overlapped, serial, links = simulate(OVERLAP)
    assert links == pytest.approx(2 * overlapped, rel=0.05)
    assert serial > overlapped + 3


SHARDED = """
from torch import nn
from torch.distributed.fsdp import fully_shard
group(64)
mesh = dist.init_device_mesh("rustdev", (64,))
with torch.device("rustdev"):
    model = nn.Sequential(*(nn.Linear(4096, 4096) for _ in range(4)))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
for _ in range(2):
    dist.barrier()
    model(torch.empty(1024, 4096, device="rustdev")).sum().backward()
torch.rustdev.synchronize()
print(json.dumps(torch.rustdev.simulated_time()))
"""


def test_a_sharded_model_trains_as_one_rank_of_a_large_group() -> None:
    seconds, [device], flops, _ = simulate(SHARDED, cluster="inside:nvlink3,between:ib200")
    assert flops == 2 * (3 * 4 - 1) * 2 * 1024 * 4096**2
    assert 0 < device[4] <= seconds
    assert seconds < device[1] + device[4] + 0.02


def test_without_a_dry_run_absent_ranks_are_refused() -> None:
    result = run(BEGIN + 'group(2)\ndist.all_reduce(torch.ones(1, device="rustdev"))\ntorch.rustdev.synchronize()')
    assert result.returncode == 1
    assert "the other ranks of an rdccl-dry group do not exist" in result.stderr
