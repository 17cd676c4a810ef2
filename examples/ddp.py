"""Trains the network of digits.py by DistributedDataParallel: each rank processes its part of every batch.

    torchrun --nproc-per-node 2 examples/ddp.py [--epochs N]

The ranks are processes of one machine, each with its own device if there are enough of them (RUSTDEV_DEVICE_COUNT).
Nothing here is specific to rustdev: init_process_group finds the device's communication backend by itself.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

import torch
import torch.distributed as dist
from digits import BATCH, SEED, Digits, network
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

EPOCHS = 15
#: Accuracy that every run of the default length reaches.
WANTED = 0.97


def choose_device() -> torch.device:
    """Set the current device of the rank, which may be shared with other ranks, and return it."""
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None:
        sys.exit("there is no accelerator")
    index = int(os.environ["LOCAL_RANK"]) % torch.accelerator.device_count()
    torch.accelerator.set_device_index(index)
    return torch.device(accelerator.type, index)


def epoch(model: nn.Module, optimizer: torch.optim.Optimizer, digits: Digits, order: Tensor) -> float:
    """Train for one epoch and return the mean loss of all ranks.

    Args:
        model: Model wrapped in DistributedDataParallel.
        optimizer: Optimizer of its parameters.
        digits: Data on this rank's device.
        order: Permutation of the training images, the same on every rank.
    """
    model.train()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    total = torch.zeros((), device=digits.train_images.device)
    batches = [batch for batch in order.to(total.device).split(BATCH) if len(batch) >= ranks]
    for batch in batches:
        mine = batch[rank::ranks]
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(model(digits.train_images[mine]), digits.train_labels[mine])
        loss.backward()
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total, dist.ReduceOp.AVG)
    return total.item() / len(batches)


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Return the accuracy of the model; each rank evaluates its part of the images."""
    model.eval()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    right = (model(images[rank::ranks]).argmax(dim=1) == labels[rank::ranks]).sum()
    dist.all_reduce(right)
    return int(right) / len(labels)


def train(epochs: int) -> float:
    """Train, report on rank 0, and return the accuracy on the test digits.

    Args:
        epochs: Number of epochs.
    """
    device = choose_device()
    torch.manual_seed(SEED)
    digits = Digits.load(str(device))
    model = DistributedDataParallel(network().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    order = torch.Generator().manual_seed(SEED)
    for number in range(epochs):
        started = time.perf_counter()
        loss = epoch(model, optimizer, digits, torch.randperm(len(digits.train_labels), generator=order))
        if dist.get_rank() == 0:
            print(f"epoch {number + 1:>2}: loss {loss:.4f}, {time.perf_counter() - started:.2f} s")
    reached = accuracy(model, digits.test_images, digits.test_labels)
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks with {dist.get_backend_config()} read {reached:.2%} of the test digits")
    return reached


def main() -> None:
    """Read the command line, join the process group and train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    arguments = parser.parse_args()

    dist.init_process_group()
    try:
        reached = train(arguments.epochs)
    finally:
        dist.destroy_process_group()
    if arguments.epochs >= EPOCHS and reached < WANTED:
        sys.exit(f"the network reads {reached:.1%} of the test digits, and should read {WANTED:.0%}")


if __name__ == "__main__":
    main()
