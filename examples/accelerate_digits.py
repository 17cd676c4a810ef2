"""Trains the network of digits.py with Hugging Face's accelerate, on one device or on several, with one process per device.

    python examples/accelerate_digits.py [--epochs N] [--precision no|bf16]
    RUSTDEV_DEVICE_COUNT=2 accelerate launch --multi_gpu --num_processes 2 examples/accelerate_digits.py

Requires the libraries that `make test-libraries` installs. Only the first line of main() is specific to rustdev.
"""

from __future__ import annotations

import argparse
import sys

import rustdev.integrations
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from digits import BATCH, SEED, WANTED, Digits, network
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 15


def train(epochs: int, precision: str) -> float:
    """Train, report on the first process, and return the accuracy on the test digits.

    Args:
        epochs: Number of epochs.
        precision: Value of accelerate's mixed_precision.
    """
    accelerator = Accelerator(mixed_precision=precision)
    set_seed(SEED)
    digits = Digits.load("cpu")
    training = DataLoader(TensorDataset(digits.train_images, digits.train_labels), BATCH, shuffle=True)
    testing = DataLoader(TensorDataset(digits.test_images, digits.test_labels), BATCH)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    model, optimizer, training, testing = accelerator.prepare(model, optimizer, training, testing)

    model.train()
    for _ in range(epochs):
        for images, labels in training:
            optimizer.zero_grad()
            accelerator.backward(functional.cross_entropy(model(images), labels))
            accelerator.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()

    model.eval()
    right = torch.zeros((), device=accelerator.device)
    with torch.no_grad():
        for images, labels in testing:
            guesses, wanted = accelerator.gather_for_metrics((model(images).argmax(dim=1), labels))
            right += (guesses == wanted).sum()
    reached = right.item() / len(digits.test_labels)
    accelerator.print(f"{accelerator.num_processes} x {accelerator.device.type} ({precision}): {reached:.2%} of the test digits")
    accelerator.end_training()
    return reached


def main() -> None:
    """Read the command line and train."""
    rustdev.integrations.enable()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--precision", choices=("no", "bf16"), default="no")
    arguments = parser.parse_args()

    reached = train(arguments.epochs, arguments.precision)
    if arguments.epochs >= EPOCHS and reached < WANTED:
        sys.exit(f"the network reads {reached:.1%} of the test digits, and should read {WANTED:.0%}")


if __name__ == "__main__":
    main()
