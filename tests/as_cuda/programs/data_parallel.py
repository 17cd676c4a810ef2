"""DistributedDataParallel over two GPUs by NCCL, started by torch.multiprocessing, with a checkpoint that both ranks read."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def work(rank: int, world_size: int, directory: str) -> None:
    dist.init_process_group("nccl", init_method=f"file://{directory}/store", rank=rank, world_size=world_size)
    torch.cuda.set_device(rank)
    assert dist.get_backend() == "nccl"
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 2).to(rank), device_ids=[rank], output_device=rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.full((3, 4), float(rank + 1)).cuda(rank)).sum().backward()
    optimizer.step()
    # The mean of 3 rows of ones and 3 rows of twos.
    assert model.module.weight.grad.tolist() == [[4.5] * 4] * 2
    total = torch.ones(2, device=f"cuda:{rank}") * (rank + 1)
    dist.all_reduce(total)
    assert total.tolist() == [3, 3]
    path = os.path.join(directory, "model.pt")
    if rank == 0:
        torch.save(model.state_dict(), path)
    dist.barrier(device_ids=[rank])
    weight = torch.load(path, map_location={"cuda:0": f"cuda:{rank}"})["module.weight"]
    assert weight.device == torch.device("cuda", rank)
    assert torch.equal(weight, model.module.weight)
    dist.barrier(device_ids=[rank])
    os.write(1, f"rank {rank} of {dist.get_world_size()}\n".encode())  # one write: the other rank writes to the same pipe
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, args=(torch.cuda.device_count(), sys.argv[1]), nprocs=torch.cuda.device_count(), join=True)
