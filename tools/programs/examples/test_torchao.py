"""torchao: quantised weights and activations, quantisation-aware training, optimizers of few bits, layouts of scales."""

from typing import Any

import pytest
import torch
from programs.beside import agrees, moved
from torch import nn
from torchao import optim, quantization
from torchao.quantization import MappingType, choose_qparams_affine, dequantize_affine, quantize_affine
from torchao.quantization.qat import IntxFakeQuantizeConfig, QATConfig

X = torch.randn(4, 64)
INT4 = getattr(torch, "int4")  # noqa: B009 - no type of torch names it


def network() -> nn.Module:
    """Return a small network of linear layers."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 32)).eval()


CONFIGURATIONS = {
    "Int8WeightOnlyConfig": {}, "Int8DynamicActivationInt8WeightConfig": {}, "Float8WeightOnlyConfig": {},
    "IntxWeightOnlyConfig": {"weight_dtype": INT4},
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGURATIONS)
@agrees(1e-2)
def test_quantised_weights(device: str, name: str) -> torch.Tensor:
    model = network().to(device)
    quantization.quantize_(model, getattr(quantization, name)(**CONFIGURATIONS[name]))
    return model(X.to(device))


@agrees(1e-2)
def test_quantisation_in_training(device: str) -> Any:
    model = network().train().to(device)
    activations = IntxFakeQuantizeConfig(torch.int8, "per_token", is_symmetric=False)
    weights = IntxFakeQuantizeConfig(INT4, group_size=32)
    quantization.quantize_(model, QATConfig(activation_config=activations, weight_config=weights, step="prepare"))
    answer = model(X.to(device))
    answer.pow(2).mean().backward()
    return answer, [weight.grad for weight in model.parameters()]


@pytest.mark.parametrize("name", ["AdamW8bit", "AdamW4bit", "AdamWFp8", "_AdamW"])
@agrees(2e-2)
def test_optimizers_of_few_bits(device: str, name: str) -> Any:
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).to(device)
    model.load_state_dict(moved(nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).state_dict(), device))
    optimizer = getattr(optim, name)(model.parameters(), lr=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        model(X.to(device)).pow(2).mean().backward()
        optimizer.step()
    return [weight.detach() for weight in model.parameters()]


@agrees()
def test_primitives(device: str) -> Any:
    x, block = X.to(device), (1, 32)
    scale, zero = choose_qparams_affine(x, MappingType.ASYMMETRIC, block, torch.int8)
    quantised = quantize_affine(x, block, scale, zero, torch.int8)
    return scale, zero, quantised, dequantize_affine(quantised, block, scale, zero, torch.int8)
