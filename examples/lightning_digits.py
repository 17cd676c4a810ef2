"""Trains the network of digits.py with Lightning, on one device or on several, with one process per device.

    python examples/lightning_digits.py [--epochs N] [--precision 32-true|bf16-mixed]
    RUSTDEV_DEVICE_COUNT=2 python examples/lightning_digits.py --devices 2

Requires the libraries that `make test-libraries` installs. Only the first line of main() and the name of the accelerator are
specific to rustdev.
"""

from __future__ import annotations

import argparse
import sys

import lightning.pytorch as pl
import rustdev.integrations
import torch
from digits import BATCH, SEED, WANTED, Digits, network
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy

EPOCHS = 15


class Reader(pl.LightningModule):  # type: ignore[misc]
    """The network with its loss, its optimizer and its accuracy."""

    def __init__(self) -> None:
        super().__init__()
        self.network = network()
        self.accuracy = MulticlassAccuracy(10, average="micro")

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        """Return the loss of a batch."""
        images, labels = batch
        loss = functional.cross_entropy(self.network(images), labels)
        self.log("loss", loss)
        return loss

    def test_step(self, batch: tuple[Tensor, Tensor], index: int) -> None:
        """Update and log the accuracy."""
        images, labels = batch
        self.accuracy(self.network(images), labels)
        self.log("accuracy", self.accuracy)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.AdamW(self.parameters(), lr=2e-3)


def train(epochs: int, precision: str, devices: int) -> float:
    """Train, report on the first process, and return the accuracy on the test digits.

    Args:
        epochs: Number of epochs.
        precision: Precision of the Trainer.
        devices: Number of devices, with one process each.
    """
    pl.seed_everything(SEED)
    digits = Digits.load("cpu")
    training = DataLoader(TensorDataset(digits.train_images, digits.train_labels), BATCH, shuffle=True)
    testing = DataLoader(TensorDataset(digits.test_images, digits.test_labels), BATCH)
    trainer = pl.Trainer(
        accelerator="rustdev",
        devices=devices,
        precision=precision,
        max_epochs=epochs,
        gradient_clip_val=5.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    model = Reader()
    trainer.fit(model, training)
    (result,) = trainer.test(model, testing, verbose=False)
    reached = float(result["accuracy"])
    if trainer.is_global_zero:
        print(f"{devices} x {trainer.strategy.root_device.type} ({precision}): {reached:.2%} of the test digits")
    return reached


def main() -> None:
    """Read the command line and train."""
    rustdev.integrations.enable()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--precision", choices=("32-true", "bf16-mixed"), default="32-true")
    parser.add_argument("--devices", type=int, default=1)
    arguments = parser.parse_args()

    reached = train(arguments.epochs, arguments.precision, arguments.devices)
    if arguments.epochs >= EPOCHS and reached < WANTED:
        sys.exit(f"the network reads {reached:.1%} of the test digits, and should read {WANTED:.0%}")


if __name__ == "__main__":
    main()
