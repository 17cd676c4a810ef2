"""Trains the network of digits.py on several ranks: each sees its part of every batch, and they share their gradients.

    torchrun --nproc-per-node 2 examples/ddp.py [--epochs N]

The ranks are processes of one machine, each with a device of its own where there are enough of them (RUSTDEV_DEVICE_COUNT).
Nothing here is written for rustdev: init_process_group finds the device's communication backend by itself.
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
#: What every run of the default length reaches.
WANTED = 0.97


def choose_device() -> torch.device:
    """Makes the rank's device the current one: its own, or one that it shares."""
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None:
        sys.exit("there is no accelerator")
    index = int(os.environ["LOCAL_RANK"]) % torch.accelerator.device_count()
    torch.accelerator.set_device_index(index)
    return torch.device(accelerator.type, index)


def epoch(model: nn.Module, optimizer: torch.optim.Optimizer, digits: Digits, order: Tensor) -> float:
    """Sees every training image once and returns the mean loss of all ranks.

    Args:
        model: whose gradients are those of all ranks.
        optimizer: of its parameters.
        digits: the data, on this rank's device.
        order: of the training images; every rank has the same.
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
    """The share of right answers; each rank reads its part of the images."""
    model.eval()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    right = (model(images[rank::ranks]).argmax(dim=1) == labels[rank::ranks]).sum()
    dist.all_reduce(right)
    return int(right) / len(labels)


def train(epochs: int) -> float:
    """Trains, reports on the first rank, and returns the accuracy on the test digits.

    Args:
        epochs: how often every training image is seen.
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
    """Reads the command line, joins the group, trains."""
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
