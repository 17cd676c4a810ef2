"""The example learns on the device what it learns on the CPU."""

import digits
import pytest
import torch
from torch import Tensor
from torch.nn import functional


def gradients(device: str) -> list[Tensor]:
    torch.manual_seed(digits.SEED)
    data = digits.Digits.load(device)
    model = digits.network().to(device)
    functional.cross_entropy(model(data.train_images[:64]), data.train_labels[:64]).backward()
    return [parameter.grad.cpu() for parameter in model.parameters()]


def test_gradients_are_the_cpus() -> None:
    torch.testing.assert_close(gradients("rustdev"), gradients("cpu"), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_training_reaches_the_cpus_accuracy() -> None:
    runs = [digits.train(device, digits.EPOCHS, progress=False) for device in ("rustdev", "cpu")]
    assert digits.shortfall(runs) is None
