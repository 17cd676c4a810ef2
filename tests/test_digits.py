"""The example learns on the device what it learns on the CPU."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor
from torch.nn import functional

EXAMPLE = Path(__file__).parents[1] / "examples/digits.py"


@pytest.fixture(scope="module")
def digits() -> ModuleType:
    spec = importlib.util.spec_from_file_location("digits", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["digits"] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def gradients(digits: ModuleType, device: str) -> list[Tensor]:
    torch.manual_seed(digits.SEED)
    data = digits.Digits.load(device)
    model = digits.network().to(device)
    functional.cross_entropy(model(data.train_images[:64]), data.train_labels[:64]).backward()
    return [parameter.grad.cpu() for parameter in model.parameters()]


def test_gradients_are_the_cpus(digits: ModuleType) -> None:
    torch.testing.assert_close(gradients(digits, "rustdev"), gradients(digits, "cpu"), rtol=1e-4, atol=1e-5)


def test_training_reaches_the_cpus_accuracy(digits: ModuleType) -> None:
    runs = [digits.train(device, digits.EPOCHS, progress=False) for device in ("rustdev", "cpu")]
    assert digits.shortfall(runs) is None
