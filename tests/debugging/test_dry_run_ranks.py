"""Dry runs of several ranks: a fake process group, LocalTensor, torchrun; and torch.compile under the watch of preflight."""

import json
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest
from children import python, run

EXAMPLES = Path(__file__).parents[2] / "examples"

#: A model of four layers of 1024 x 1024, and the parts of torch.distributed.
START = """
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

def model():
    with torch.device("rustdev"):
        return nn.Sequential(*(nn.Linear(1024, 1024, bias=False) for _ in range(4)))

def train(network, x):
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    for _ in range(2):
        network(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
MIB = 1 << 20


def preflight(tmp_path: Path, program: str) -> tuple[str, dict[str, Any]]:
    """Run a program under preflight; return its output, and the report on the first device."""
    (tmp_path / "program.py").write_text(START + textwrap.dedent(program))
    options = ["--profile", "t4-16g", "--json", "report.json"]
    result = python("-m", "rustdev.preflight", *options, "program.py", directory=tmp_path, nested=True)
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    return result.stdout, found["devices"][0]


def test_a_fake_group_has_any_number_of_ranks() -> None:
    program = """
        dist.init_process_group("fake", store=FakeStore(), rank=5, world_size=64)
        x, parts = torch.ones(64, device="rustdev"), torch.empty(64 * 64, device="rustdev")
        dist.all_reduce(x)
        dist.all_gather_into_tensor(parts, x)
        dist.reduce_scatter_tensor(x, parts)
        dist.broadcast(x, 3, async_op=True).wait()
        dist.all_to_all_single(x, x.clone())
        dist.barrier()
        print(dist.get_rank(), dist.get_world_size(), dist.get_backend(), x.shape)
    """
    result = run(START + textwrap.dedent(program), RUSTDEV_COMPUTE="none", check=True)
    assert result.stdout == "5 64 fake torch.Size([64])\n"


def test_fully_sharded_parameters(tmp_path: Path) -> None:
    program = """
        from torch.distributed.fsdp import fully_shard
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
        network, mesh = model(), init_device_mesh("rustdev", (8,))
        for part in (*network, network):
            fully_shard(part, mesh=mesh)
        train(network, torch.ones(16, 1024, device="rustdev"))
        print(torch.rustdev.memory_allocated())
    """
    _, device = preflight(tmp_path, program)
    parts = device["peak"]["parts"]
    # An eighth of 16 MiB for parameters. The rest of the peak is a gathered layer or more.
    assert parts["parameters"] == 2 * MIB
    assert parts["communication"] >= 4 * MIB
    assert parts["optimizer_states"] in (0, 4 * MIB)
    assert sum(parts.values()) == device["peak_allocated"]


@pytest.mark.slow
def test_tensor_parallelism(tmp_path: Path) -> None:
    program = """
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
        mesh = init_device_mesh("rustdev", (4,))
        plan = {"0": ColwiseParallel(), "1": RowwiseParallel(), "2": ColwiseParallel(), "3": RowwiseParallel()}
        train(parallelize_module(model(), mesh, plan), torch.ones(16, 1024, device="rustdev"))
    """
    _, device = preflight(tmp_path, program)
    assert device["peak"]["parts"]["parameters"] == 4 * MIB
    assert device["peak"]["parts"]["optimizer_states"] == 8 * MIB


@pytest.mark.slow
def test_local_tensors_are_all_ranks_in_one_process(tmp_path: Path) -> None:
    program = """
        from torch.distributed._local_tensor import LocalTensorMode
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor, randn
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
        with LocalTensorMode(4):
            mesh = init_device_mesh("rustdev", (4,))
            weight = distribute_tensor(torch.ones(1024, 1024, device="rustdev"), mesh, [Shard(0)])
            x = distribute_tensor(torch.ones(16, 1024, device="rustdev"), mesh, [Replicate()])
            y = x @ weight.T
            print(tuple(y.full_tensor().shape), tuple(y.to_local().shape), y.placements)
            print(nn.functional.dropout(y).placements, randn(16, 1024, device_mesh=mesh, placements=[Shard(0)]).to_local().shape)
    """
    output, device = preflight(tmp_path, program)
    assert output.startswith("(16, 1024) (16, 256) (Shard(dim=1),)\n(Shard(dim=1),) torch.Size([4, 1024])"), output
    assert device["peak_allocated"] >= 4 * MIB


def torchrun(tmp_path: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in two processes."""
    command = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", *words]
    variables = {"OMP_NUM_THREADS": "1", "RUSTDEV_PROFILE": "t4-16g", "RUSTDEV_LAUNCH_BLOCKING": "1"} | environment
    return python(*command, directory=tmp_path, nested=True, timeout=180, check=True, **variables)


@pytest.mark.slow
def test_ranks_of_torchrun_report_each_and_have_the_peaks_of_a_computed_run(tmp_path: Path) -> None:
    words = ["-m", "rustdev.preflight", "--json", "report.json", str(EXAMPLES / "ddp.py"), "--epochs", "1"]
    result = torchrun(tmp_path, *words)
    reports = [json.loads((tmp_path / name).read_text()) for name in ("report.json", "report-rank1.json")]
    assert [report["rank"] for report in reports] == [0, 1]
    assert all(report["fits"] for report in reports)
    assert "the program fits on t4-16g, rank 1" in result.stderr
    program = f"""
        import os, runpy, sys, torch
        sys.path.insert(0, {str(EXAMPLES)!r})
        runpy.run_path(os.path.join(sys.path[0], "ddp.py"), run_name="__main__")
        peaks = [[torch.rustdev.max_memory_allocated(at), torch.rustdev.max_memory_reserved(at)] for at in range(2)]
        print(f"\\npeaks {{os.environ['RANK']}} {{peaks}}\\n", end="")  # one write: both ranks write to one pipe
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    lines = torchrun(tmp_path, "program.py", "--epochs", "1").stdout.splitlines()
    computed = [json.loads(line.split(maxsplit=2)[2]) for line in sorted(lines) if line.startswith("peaks")]
    dry = [[[device["peak_allocated"], device["peak_reserved"]] for device in report["devices"]] for report in reports]
    assert all(dry)
    assert dry == [[peaks for peaks in of_rank if peaks[0]] for of_rank in computed]


@pytest.mark.slow
def test_compiled_models_and_optimizers(tmp_path: Path) -> None:
    program = """
        x = torch.ones(16, 1024, device="rustdev")
        one, other = model(), model()
        train(torch.compile(one, fullgraph=True), x)
        other.compile()
        train(other, x)
        step = torch.compile(torch.optim.AdamW(one.parameters(), lr=1e-3).step)
        one(x).sum().backward()
        step()
    """
    _, device = preflight(tmp_path, program)
    parts = device["peak"]["parts"]
    assert (parts["parameters"], parts["gradients"]) == (32 * MIB, 16 * MIB)
    assert parts["optimizer_states"] >= 32 * MIB
