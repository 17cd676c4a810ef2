"""Trains a small convolutional network on scikit-learn's handwritten digits, on the device and then on PyTorch's CPU device.

    python examples/digits.py [--device rustdev|cpu] [--epochs N] [--plot FILE.png]

The data set has 1,797 scans of 8 by 8 pixels, a quarter of which are the test set. Both devices run the same program with the same
seed, initial weights and order of batches. Only the report at the end is specific to rustdev.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from collections.abc import Iterable

SEED = 7
BATCH = 64
EPOCHS = 20
# Accuracy that every run of the default length reaches, and allowed difference of the devices: 2 % are nine of 450 test digits.
WANTED = 0.97
NOISE = 0.02


@dataclass
class Digits:
    """Images [N, 1, 8, 8] between 0 and 1, and their labels [N], on one device."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor

    @classmethod
    def load(cls, device: str) -> Digits:
        """Load and split the data set, and copy it to a device.

        Args:
            device: Device of the tensors.
        """
        images, labels = load_digits(return_X_y=True)
        parts = train_test_split(images, labels, test_size=0.25, random_state=SEED, stratify=labels)
        train_images, test_images = (torch.tensor(part, dtype=torch.float32).view(-1, 1, 8, 8) / 16 for part in parts[:2])
        train_labels, test_labels = (torch.tensor(part, dtype=torch.int64) for part in parts[2:])
        return cls(*(tensor.to(device) for tensor in (train_images, train_labels, test_images, test_labels)))


@dataclass
class Run:
    """Results of one training run."""

    device: str
    losses: list[float]
    train_accuracy: float
    test_accuracy: float
    epoch_seconds: list[float]
    predictions: Tensor

    @property
    def epoch_time(self) -> float:
        """Median time of an epoch in seconds; the first epochs include warm-up."""
        return sorted(self.epoch_seconds)[len(self.epoch_seconds) // 2]


def network() -> nn.Module:
    """Two convolutions, two linear layers: 85,000 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def train(device: str, epochs: int, progress: bool = True) -> Run:
    """Train on a device, with the same initial weights and batches on every device.

    Args:
        device: Name of the device.
        epochs: Number of epochs.
        progress: Whether to show a progress bar.
    """
    torch.manual_seed(SEED)
    digits = Digits.load(device)
    model = network().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    order = torch.Generator().manual_seed(SEED)
    losses: list[float] = []
    seconds: list[float] = []
    bar = epoch_bar(device, epochs) if progress else range(epochs)
    for _ in bar:
        started = time.perf_counter()
        losses.append(epoch(model, optimizer, digits, torch.randperm(len(digits.train_labels), generator=order)))
        seconds.append(time.perf_counter() - started)
    train_accuracy, _ = accuracy(model, digits.train_images, digits.train_labels)
    test_accuracy, predictions = accuracy(model, digits.test_images, digits.test_labels)
    return Run(device, losses, train_accuracy, test_accuracy, seconds, predictions)


def epoch_bar(device: str, epochs: int) -> Iterable[int]:
    """Return the epoch numbers with a progress bar."""
    from tqdm import tqdm

    numbers: Iterable[int] = tqdm(range(epochs), desc=f"{device:>8}", unit="epoch")
    return numbers


def epoch(model: nn.Module, optimizer: torch.optim.Optimizer, digits: Digits, order: Tensor) -> float:
    """Train for one epoch and return the mean loss.

    The losses are summed on the device: reading each loss by ``.item()`` would wait for the device at every step.
    """
    model.train()
    total = torch.zeros((), device=digits.train_images.device)
    batches = order.to(total.device).split(BATCH)
    for batch in batches:
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(model(digits.train_images[batch]), digits.train_labels[batch])
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return total.item() / len(batches)


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> tuple[float, Tensor]:
    """Return the accuracy, and the predictions on the CPU."""
    model.eval()
    predictions = model(images).argmax(dim=1)
    return (predictions == labels).float().mean().item(), predictions.cpu()


def report(runs: list[Run]) -> None:
    """Print the runs as a table."""
    print(f"\n{'':10}{'train':>10}{'test':>10}{'loss':>10}{'per epoch':>14}")
    for run in runs:
        accuracies = f"{run.train_accuracy:>10.2%}{run.test_accuracy:>10.2%}"
        print(f"{run.device:10}{accuracies}{run.losses[-1]:>10.4f}{run.epoch_time * 1e3:>11.1f} ms")
    if len(runs) == 2:
        print(f"\nan epoch on {runs[0].device} takes {runs[0].epoch_time / runs[1].epoch_time:.2f} of the time on {runs[1].device}")


def shortfall(runs: list[Run]) -> str | None:
    """Return what is wrong with the accuracies; None if nothing is."""
    for run in runs:
        if run.test_accuracy < WANTED:
            return f"the network on {run.device} reads {run.test_accuracy:.1%} of the test digits, and should read {WANTED:.0%}"
    accuracies = [run.test_accuracy for run in runs]
    return None if max(accuracies) - min(accuracies) <= NOISE else "the devices differ by more than noise"


class Operators(TorchDispatchMode):
    """Dispatch mode that counts the operator calls with device tensors."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: torch._ops.OpOverload, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operator, and count it if an argument or a result is a device tensor."""
        result = func(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tree_leaves((args, kwargs, result)) if isinstance(leaf, Tensor)]
        self.calls[func.name()] += any(tensor.device.type == "rustdev" for tensor in tensors)
        return result


def report_device() -> None:
    """Print the peak memory, the operators that fell back, and the tiers of the operators of one epoch."""
    import rustdev

    allocated, reserved = rustdev.max_memory_allocated() / 2**20, rustdev.max_memory_reserved() / 2**20
    print(f"\npeak memory {allocated:.1f} MiB allocated, {reserved:.1f} MiB reserved")
    launches = sum(rustdev.op_calls().values())
    fallbacks = rustdev.fallback_stats()
    fallen, seconds = sum(stat.calls for stat in fallbacks.values()), sum(stat.seconds for stat in fallbacks.values())
    print(f"{launches:,} launches of Rust kernels, {fallen:,} operators by the fallback, {seconds:.2f} s in them")

    with Operators() as operators:
        train("rustdev", 1, progress=False)
    tiers = rustdev.coverage()
    seen = [(name, calls) for name, calls in operators.calls.most_common() if calls]
    print("the operators of one epoch, with their calls")
    for tier in ("rust", "aten", "composite", "fallback"):
        names = [f"{name.removeprefix('aten::')} {calls}" for name, calls in seen if tiers.get(name) == tier]
        print(textwrap.fill(", ".join(names) or "none", 128, initial_indent=f"  {tier + ':':11}", subsequent_indent=" " * 13))


def draw_losses(axes: Any, runs: list[Run]) -> None:
    """Plot the training loss of every run over the epochs.

    Args:
        axes: Axes of matplotlib.
        runs: Training runs. The second is dashed, since equal curves would hide each other.
    """
    from matplotlib.ticker import MaxNLocator

    for run, style in zip(runs, ("-", "--"), strict=False):
        label = f"{run.device}: reads {run.test_accuracy:.1%} of the test digits"
        axes.plot(range(1, len(run.losses) + 1), run.losses, style, linewidth=2, label=label)
    axes.set(title="learning", xlabel="epoch", ylabel="training loss (mean cross entropy, nats)", yscale="log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False)
    axes.grid(alpha=0.25)


def draw_digits(figure: Any, run: Run) -> None:
    """Plot the first test digits with their predictions, and with the labels of wrong predictions.

    Args:
        figure: Figure of matplotlib.
        run: Training run with the predictions.
    """
    digits = Digits.load("cpu")
    labels, guesses = digits.test_labels.tolist(), run.predictions.tolist()
    for axis, image, label, guess in zip(figure.subplots(4, 8).flat, digits.test_images, labels, guesses, strict=False):
        axis.imshow(image[0], cmap="gray_r", vmin=0, vmax=1)
        right = guess == label
        axis.set_title(str(guess) if right else f"{guess}, is {label}", color="tab:green" if right else "tab:red", fontsize=13)
        axis.set_axis_off()
    wrong = sum(guess != label for guess, label in zip(guesses, labels, strict=True))
    figure.suptitle(f"test digits and what the network on {run.device} reads: {wrong} of all {len(labels)} are wrong")


def plot(runs: list[Run], file: Path) -> None:
    """Plot the loss of every run, and some test digits with the predictions of the first run.

    Args:
        runs: Training runs.
        file: Picture file to write.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure = plt.figure(figsize=(13, 5.2), layout="constrained")
    halves: Any = figure.subfigures(1, 2, width_ratios=(1, 1.15))
    left, right = halves
    draw_losses(left.subplots(), runs)
    draw_digits(right, runs[0])
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)
    print(f"drawn: {file}")


def main() -> None:
    """Read the command line, train and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("rustdev", "cpu"), default="rustdev")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--plot", type=Path, metavar="FILE.png")
    arguments = parser.parse_args()

    runs = [train(arguments.device, arguments.epochs)]
    if arguments.device != "cpu":
        runs.append(train("cpu", arguments.epochs))
    report(runs)
    if arguments.device == "rustdev":
        report_device()
    if arguments.plot:
        plot(runs, arguments.plot)
    if arguments.epochs >= EPOCHS and (complaint := shortfall(runs)):
        sys.exit(complaint)


if __name__ == "__main__":
    main()
