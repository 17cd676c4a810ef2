"""torchao: quantised weights and activations, quantisation-aware training, optimizers of few bits, layouts of scales."""

from typing import Any

import pytest
import torch
from programs.beside import agree, moved
from torch import nn

X = torch.randn(4, 64)
INT4 = getattr(torch, "int4")  # noqa: B009 - no type of torch names it


def network() -> nn.Module:
    """Return a small network of linear layers."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 32)).eval()


@pytest.mark.parametrize("name", ["Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig", "Float8WeightOnlyConfig"])
def test_quantised_weights(name: str) -> None:
    from torchao import quantization

    def calculate(device: str) -> torch.Tensor:
        model = network().to(device)
        quantization.quantize_(model, getattr(quantization, name)())
        return model(X.to(device))

    agree(calculate, 1e-2)


def test_weights_of_four_bits() -> None:
    from torchao.quantization import IntxWeightOnlyConfig, quantize_

    def calculate(device: str) -> torch.Tensor:
        model = network().to(device)
        quantize_(model, IntxWeightOnlyConfig(weight_dtype=INT4))
        return model(X.to(device))

    agree(calculate, 1e-2)


def test_quantisation_in_training() -> None:
    from torchao.quantization import quantize_
    from torchao.quantization.qat import IntxFakeQuantizeConfig, QATConfig

    def calculate(device: str) -> Any:
        model = network().train().to(device)
        weights = IntxFakeQuantizeConfig(INT4, group_size=32)
        quantize_(model, QATConfig(activation_config=IntxFakeQuantizeConfig(torch.int8, "per_token", is_symmetric=False),
                                   weight_config=weights, step="prepare"))  # fmt: skip
        answer = model(X.to(device))
        answer.pow(2).mean().backward()
        return answer, [weight.grad for weight in model.parameters()]

    agree(calculate, 1e-2)


@pytest.mark.parametrize("name", ["AdamW8bit", "AdamW4bit", "AdamWFp8", "_AdamW"])
def test_optimizers_of_few_bits(name: str) -> None:
    from torchao import optim

    def calculate(device: str) -> Any:
        model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).to(device)
        model.load_state_dict(moved(nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).state_dict(), device))
        optimizer = getattr(optim, name)(model.parameters(), lr=1e-2)
        for _ in range(3):
            optimizer.zero_grad()
            model(X.to(device)).pow(2).mean().backward()
            optimizer.step()
        return [weight.detach() for weight in model.parameters()]

    agree(calculate, 2e-2)


def test_primitives() -> None:
    from torchao.quantization import MappingType, choose_qparams_affine, dequantize_affine, quantize_affine

    def calculate(device: str) -> Any:
        x, block = X.to(device), (1, 32)
        scale, zero = choose_qparams_affine(x, MappingType.ASYMMETRIC, block, torch.int8)
        quantised = quantize_affine(x, block, scale, zero, torch.int8)
        return scale, zero, quantised, dequantize_affine(quantised, block, scale, zero, torch.int8)

    agree(calculate)
