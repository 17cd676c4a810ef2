"""The end of groups and of processes: submitted operations complete first, unless there was an error."""

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from workers import Workers, joined

#: For how long tests wait for a process.
SECONDS = 100
#: How programs of two processes begin. The group's timeout is longer than that.
PREAMBLE = """
import sys
from datetime import timedelta
import torch
import torch.distributed as dist

def join():
    rank, store = int(sys.argv[1]), sys.argv[2]
    dist.init_process_group("rdccl", init_method=f"file://{store}", rank=rank, world_size=2, timeout=timedelta(seconds=300))
    tensor = torch.ones(4, device="rustdev")
    dist.all_reduce(tensor)
    assert tensor.tolist() == [2.0] * 4
    return rank, tensor
"""


def destroy_behind_a_queue(store: str) -> None:
    rank, tensor = joined(store)
    if rank == 0:
        torch.rustdev._sleep(300_000_000)
    for _ in range(2):
        dist.all_reduce(tensor.mul_(0.5))
    work = dist.all_reduce(tensor.mul_(0.5), async_op=True)
    dist.destroy_process_group()
    assert work.is_completed()
    work.wait()
    assert tensor.tolist() == [2.0] * 4


def destroy_behind_messages(store: str) -> None:
    rank, tensor = joined(store)
    # More than sockets buffer.
    data = torch.full((1 << 20,), 5.0, device="rustdev")
    if rank == 0:
        dist.send(data, 1)
        work = dist.isend(tensor, 1, tag=1)
    else:
        torch.rustdev._sleep(300_000_000)
        dist.recv(data.zero_(), 0)
        work = dist.irecv(tensor.zero_(), 0, tag=1)
    dist.destroy_process_group()
    assert work is not None
    assert work.is_completed()
    work.wait()
    assert data.unique().tolist() == [5.0]
    assert tensor.tolist() == [2.0] * 4


def destroy_one_group_of_two(store: str) -> None:
    rank, tensor = joined(store)
    group = dist.new_group()
    if rank == 0:
        torch.rustdev._sleep(300_000_000)
    work = dist.all_reduce(tensor, group=group, async_op=True)
    dist.destroy_process_group(group)
    assert work.is_completed()
    dist.all_reduce(tensor)
    dist.destroy_process_group()
    assert tensor.tolist() == [8.0] * 4


def abort_behind_a_queue(store: str) -> None:
    """What was not begun never is, and fails; nobody waits."""
    rank, tensor = joined(store)
    if rank == 0:
        torch.rustdev._sleep(300_000_000)
        work = dist.all_reduce(tensor, async_op=True)
        dist.distributed_c10d._abort_process_group()
        assert not work.is_completed()
        with pytest.raises(dist.DistBackendError, match="the group was aborted"):
            work.wait(timedelta(seconds=30))
    else:
        dist.distributed_c10d._abort_process_group()
    assert (torch.ones(4, device="rustdev") * 3).tolist() == [3.0] * 4
    # Another group works.
    assert joined(f"{store} again")[1].tolist() == [2.0] * 4
    dist.destroy_process_group()


def destroy_behind_a_silent_rank(store: str) -> None:
    """The group's time bounds the wait, on the rank that is lost and on the other."""
    _, tensor = joined(store)
    dist.group.WORLD._get_backend(tensor.device)._set_default_timeout(timedelta(seconds=1))
    with torch.rustdev.inject_faults("peer:1:1"):
        dist.all_reduce(tensor)
    dist.destroy_process_group()
    with pytest.raises(torch.AcceleratorError, match="all_reduce of rank"):
        tensor.tolist()


ENDINGS = (
    destroy_behind_a_queue,
    destroy_behind_messages,
    destroy_one_group_of_two,
    abort_behind_a_queue,
    destroy_behind_a_silent_rank,
)


@pytest.mark.slow
@pytest.mark.parametrize("check", ENDINGS, ids=lambda function: function.__name__)
def test_group(joiners: Workers, check: Callable[[str], None], tmp_path: Path) -> None:
    joiners.run(check, str(tmp_path / "store"))


def start(program: Path, store: Path, rank: int) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "RUSTDEV_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, str(program), str(rank), str(store)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_process_that_ends_sends_what_it_has_submitted(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        PREAMBLE
        + """
rank, tensor = join()
if rank == 0:
    torch.rustdev._sleep(300_000_000)
    dist.all_reduce(tensor)
    dist.send(tensor + 1, 1)
    dist.isend(torch.full((1 << 20,), 3.0, device="rustdev"), 1)
else:
    dist.all_reduce(tensor)
    received = torch.zeros(1 << 20, device="rustdev")
    dist.recv(tensor, 0)
    dist.recv(received, 0)
    print(tensor.tolist(), received.unique().tolist())
"""
    )
    processes = [start(program, tmp_path / "store", rank) for rank in range(2)]
    ends = [(*process.communicate(timeout=SECONDS), process.returncode) for process in processes]
    assert ends == [("", "", 0), (f"{[5.0] * 4} [3.0]\n", "", 0)]


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1])
def test_process_that_ends_by_an_error_waits_for_nobody(first: int, tmp_path: Path) -> None:
    """The first rank is a program's own process, the second a child of multiprocessing, which ends otherwise."""
    program, store, ended = tmp_path / "program.py", tmp_path / "store", tmp_path / "ended"
    program.write_text(
        f"""
import multiprocessing, os, pathlib, sys, time

def member():
    rank, _ = join()
    if rank != {first}:
        while not pathlib.Path({str(ended)!r}).exists():
            time.sleep(0.01)
        os._exit(0)
    dist.send(torch.ones(1 << 20, device="rustdev"), 1 - rank)
    raise RuntimeError("of the program")

if __name__ == "__main__" and sys.argv[1] == "1":
    child = multiprocessing.get_context("spawn").Process(target=member)
    child.start()
    child.join()
    sys.exit(child.exitcode)
{PREAMBLE}
if __name__ == "__main__":
    member()
"""
    )
    processes = [start(program, store, rank) for rank in range(2)]
    _, errors = processes[first].communicate(timeout=SECONDS)
    ended.touch()
    processes[1 - first].communicate(timeout=SECONDS)
    assert processes[1 - first].returncode == 0
    assert processes[first].returncode == 1
    assert errors.endswith("RuntimeError: of the program\n")
