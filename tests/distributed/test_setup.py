"""Creation of groups with rdccl: registration, defaults, launchers, subgroups, debug mode."""

import os
import re
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import children
import pytest
import torch
import torch.distributed as dist
import workers
from children import run_fresh
from workers import Workers, join

ROOT = Path(__file__).parents[2]


def python(program: str, **environment: str) -> str:
    result = run_fresh(program, **environment)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


@pytest.mark.slow
def test_import_registers_and_loads_nothing_else() -> None:
    said = python(
        "import sys, torch; from torch.distributed import Backend; print(Backend.default_device_backend_map['rustdev'], "
        "Backend.backend_capability['rdccl'], [name for name in sys.modules if name.startswith('rustdev.distributed')])"
    )
    assert said == "rdccl ['rustdev'] ['rustdev.distributed']\n"


@pytest.mark.slow
def test_torch_without_distributed_gets_no_registration() -> None:
    said = python(
        "import sys, torch; del sys.modules['torch.distributed.distributed_c10d']; import rustdev;"
        "print('torch.distributed.distributed_c10d' in sys.modules)",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert said == "False\n"


def test_registering_twice_changes_nothing() -> None:
    plugin = dist.Backend._plugins["RDCCL"]
    torch.rustdev.distributed.register()
    assert dist.Backend._plugins["RDCCL"] is plugin


def test_options_of_other_backends_are_refused() -> None:
    with pytest.raises(TypeError, match="rdccl takes no options"):
        dist.init_process_group("rdccl", store=dist.HashStore(), rank=0, world_size=1, pg_options=dist.ProcessGroupGloo._Options())
    assert not dist.is_initialized()


def torchrun(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", *arguments]
    result = children.python(*command, nested=True, timeout=180, OMP_NUM_THREADS="1", **environment)
    assert result.returncode == 0, result.stderr
    return result


@pytest.mark.slow
def test_torchrun_trains_the_example() -> None:
    result = torchrun(str(ROOT / "examples/ddp.py"), "--epochs", "3")
    found = re.search(r"2 ranks with rustdev:rdccl read ([\d.]+)% of the test digits", result.stdout)
    assert found is not None, result.stdout
    assert float(found[1]) > 85


#: A program that leaves the choice of the device to its mesh, and trains by DistributedDataParallel with warnings as errors.
MESH = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

mesh = dist.init_device_mesh("rustdev", (2,))
rank = dist.get_rank()
assert torch.rustdev.current_device() == rank
assert torch.ones(1, device="rustdev").device.index == rank
torch.rustdev.set_device(1 - rank)
dist.init_device_mesh("rustdev", (1, 2))
assert torch.rustdev.current_device() == 1 - rank, "the program's choice stands"
torch.rustdev.set_device(rank)
model = DistributedDataParallel(torch.nn.Linear(256, 256).to("rustdev"))
for step in range(4):
    if step == 2:
        torch.rustdev.launch_host_func(lambda: None)  # needs Python while the logger waits for the stream
    torch.rustdev._sleep(20_000_000)
    model(torch.ones(64, 256, device="rustdev")).sum().backward()
told = model._get_ddp_logging_data()
times = [told[f"avg_{it}"] for it in ("forward_compute_time", "backward_compute_time", "backward_comm_time")]
assert all(0 < it < 60e9 for it in times), times
with model.no_sync():
    model(torch.ones(64, 256, device="rustdev")).sum().backward()
model(torch.ones(64, 256, device="rustdev")).sum().backward()
dist.destroy_process_group()
dist.init_process_group("rdccl")  # the same store and name as before
total = torch.ones(2, device="rustdev")
dist.all_reduce(total)
assert total.tolist() == [2, 2]
dist.destroy_process_group()
print("over\\n", end="")  # one write: both ranks write to one pipe
"""


@pytest.mark.slow
def test_mesh_chooses_the_device_and_data_parallelism_is_timed_without_a_warning(tmp_path: Path) -> None:
    program = tmp_path / "mesh.py"
    program.write_text(MESH)
    result = torchrun(str(program), RUSTDEV_DEVICE_COUNT="2", PYTHONWARNINGS="error::UserWarning")
    assert result.stdout.split() == ["over", "over"]
    assert "arn" not in result.stderr


def expect_sum(kind: str = "rustdev", group: Any = None) -> None:
    tensor = torch.full((4,), dist.get_rank() + 1.0, device=kind)
    dist.all_reduce(tensor, group=group)
    assert tensor.tolist() == [3.0] * 4


def by_default(store: str) -> None:
    join(store, 30)
    assert dist.get_backend_config() == "rustdev:rdccl"
    expect_sum()
    backend = dist.group.WORLD._get_backend(torch.device("rustdev"))
    assert backend.name() == "rdccl"
    assert (backend.rank(), backend.size()) == (dist.get_rank(), 2)
    assert backend.options._timeout == timedelta(seconds=30)
    with pytest.raises(RuntimeError, match=r"cpu|CPU"):
        dist.all_reduce(torch.ones(4))


def with_gloo_for_the_cpu(store: str) -> None:
    join(store, 30, backend="cpu:gloo,rustdev:rdccl")
    expect_sum("rustdev")
    expect_sum("cpu")


def with_a_device(store: str) -> None:
    rank = workers.own_rank
    join(store, 30, device_id=torch.device("rustdev", rank))
    torch.rustdev.set_device(rank)
    expect_sum(f"rustdev:{rank}")
    dist.barrier()


def with_subgroups(store: str) -> None:
    rank = join(store, 30)
    groups = [dist.new_group([0]), dist.new_group([1]), dist.new_group([1, 0], timeout=timedelta(seconds=20))]
    tensor = torch.ones(4, device="rustdev")
    dist.all_reduce(tensor, group=groups[rank])
    assert tensor.tolist() == [1.0] * 4
    expect_sum(group=groups[2])
    # Sequential on each rank, in opposite orders: no group waits for another.
    tensors = [torch.full((4,), rank + 1.0, device="rustdev") for _ in range(2)]
    order = [None, groups[2]] if rank == 0 else [groups[2], None]
    works = [dist.all_reduce(tensors[group is None], group=group, async_op=True) for group in order]
    for work in works:
        work.wait()
    assert [tensor.tolist() for tensor in tensors] == [[3.0] * 4] * 2
    dist.destroy_process_group(groups[2])
    expect_sum()


def in_debug_mode(store: str) -> None:
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    dist.set_debug_level_from_env()
    try:
        rank = join(store, 30)
        import gc

        gc.collect()
        expect_sum()
        work = dist.all_reduce(torch.ones(4, device="rustdev"), async_op=True)
        work.wait()
        torch.rustdev.synchronize()
        assert work.is_completed()
        # The wrapper compares the ranks' calls before it makes them.
        with pytest.raises(RuntimeError, match="Detected mismatch between collectives"):
            dist.all_reduce(torch.ones(4 + rank, device="rustdev"))
    finally:
        os.environ["TORCH_DISTRIBUTED_DEBUG"] = "OFF"
        dist.set_debug_level_from_env()


def with_another_timeout(store: str) -> None:
    join(store, 30)
    backend = dist.group.WORLD._get_backend(torch.device("rustdev"))
    set_timeout = getattr(dist, "set_timeout", dist.distributed_c10d._set_pg_timeout)  # its name before torch 2.15
    set_timeout(timedelta(seconds=12), dist.group.WORLD)
    assert backend.options._timeout == timedelta(seconds=12)
    expect_sum()


def join_and(check: Callable[[str], None], store: str) -> None:
    try:
        check(store)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
        torch.rustdev.set_device(0)
    if check is not in_debug_mode:
        from rustdev.distributed import backend

        assert not backend._in_use


SETUPS = (by_default, with_gloo_for_the_cpu, with_a_device, with_subgroups, in_debug_mode, with_another_timeout)


@pytest.mark.parametrize("check", SETUPS, ids=lambda function: function.__name__)
def test_group(joiners: Workers, check: Callable[[str], None], tmp_path: Path) -> None:
    joiners.run(join_and, check, str(tmp_path / "store"))
