"""Time of an all_reduce between two processes, on the device and on PyTorch's CPU device, both by Gloo.

    python benches/runtime/all_reduce.py

Each process computes with one thread. The devices alternate within a round, so that other load on the machine affects both.
"""

import multiprocessing
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist

SIZES = (4, 1_000_000)
ROUNDS = 60
CALLS = 20


def seconds(tensor: torch.Tensor, calls: int) -> float:
    """Return the mean time of ``calls`` consecutive calls, each of which waits for the previous one."""
    begin = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(tensor)
        if tensor.device.type != "cpu":
            torch.accelerator.synchronize()
    return (time.perf_counter() - begin) / calls


def measure(rank: int, store: str) -> None:
    """Run a rank: measure, and print the results on rank 0.

    Args:
        rank: Rank, 0 or 1.
        store: File of the store by which the ranks connect.
    """
    dist.init_process_group("cpu:gloo,rustdev:rdccl", init_method=f"file://{store}", rank=rank, world_size=2)
    for size in SIZES:
        tensors = {device: torch.zeros(size, device=device) for device in ("cpu", "rustdev")}
        times: dict[str, list[float]] = {device: [] for device in tensors}
        for _ in range(ROUNDS):
            for device, tensor in tensors.items():
                times[device].append(seconds(tensor, CALLS if size < 1000 else 3))
        if rank == 0:
            medians = {device: statistics.median(values) for device, values in times.items()}
            text = ", ".join(f"{device} {median * 1e6:.0f} us" for device, median in medians.items())
            print(f"{size:>9} floats: {text}, {medians['rustdev'] / medians['cpu']:.2f} of the CPU device's time")
    dist.destroy_process_group()


def main() -> None:
    """Start the processes."""
    os.environ |= {"OMP_NUM_THREADS": "1", "RUSTDEV_NUM_THREADS": "1"}
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as directory:
        processes = [context.Process(target=measure, args=(rank, f"{directory}/store")) for rank in range(2)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()


if __name__ == "__main__":
    main()
