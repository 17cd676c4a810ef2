"""The race detector reports nothing for correctly synchronized programs, with any kind of synchronization."""

import os
import socket
import subprocess
from pathlib import Path

import children
import pytest
import torch
from ordered_programs import ORDERED, Program


@pytest.mark.parametrize("program", ORDERED, ids=[program.__name__ for program in ORDERED])
def test_an_ordered_program_is_silent(program: Program) -> None:
    with torch.rustdev.sanitizer(mode="error"):
        program()
        torch.rustdev.synchronize()
        torch.rustdev.synchronize(1)
    assert [report.text for report in torch.rustdev.sanitizer_reports()] == []


PARALLEL = """
import os, sys
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank = int(sys.argv[1])
os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=sys.argv[2], RANK=str(rank), WORLD_SIZE="2")
dist.init_process_group("rdccl")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).to("rustdev"))
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(16, 8, device="rustdev")).square().mean().backward()
    optimizer.step()
tensor = torch.ones(16, device="rustdev")
side = torch.rustdev.Stream()
side.wait_stream(torch.rustdev.current_stream())
with torch.rustdev.stream(side):
    tensor.add_(rank)
    work = dist.all_reduce(tensor, async_op=True)
work.wait()
assert (tensor * 2).tolist() == [6.0] * 16
dist.barrier()
dist.destroy_process_group()
assert torch.rustdev.sanitizer_reports() == []
"""


def test_data_parallel_training_is_silent(tmp_path: Path) -> None:
    program = tmp_path / "parallel.py"
    program.write_text(PARALLEL)
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    variables = {**os.environ, "RUSTDEV_SANITIZE": "race:error", "RUSTDEV_DEVICE_COUNT": "1", "RUSTDEV_NUM_THREADS": "1"}
    commands = [[children.executable(), str(program), str(rank), str(port)] for rank in range(2)]
    ranks = [subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True) for command in commands]
    errors = [rank.communicate(timeout=300)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(errors)
    assert "race detector" not in "".join(errors)
