"""Linear layers with quantised weights, by PyTorch's operators for them: 8 bits a weight, or 4.

Inputs and outputs keep their dtype; only the weights are quantised. `_weight_int8pack_mm` and `_weight_int4pack_mm_for_cpu` convert
them while they multiply: a product reads a byte, or half of one, for each weight. examples/chat.py and `make bench-llm` use these
layers. Nothing in them is specific to rustdev.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

#: Sizes of groups for which there are kernels, and what the number of rows of an Int4Linear is a multiple of.
GROUPS = (32, 64, 128, 256)
ROWS = 16


def rows_at_once(weight: Tensor) -> list[slice]:
    """Return the rows of weights in parts, whose values in float32 take little memory beside the weights."""
    return [slice(first, first + 1024) for first in range(0, weight.shape[0], 1024)]


def quantise_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise weights to 8 bits, with a scale for each row: weight = q * scale.

    Args:
        weight: Weights, [N, K], float32, bfloat16 or float16.

    Returns:
        q: [N, K], int8, from -127 to 127.
        scales: [N], of the weights' dtype.
    """
    scales = (weight.abs().amax(dim=1).float() / 127).clamp(min=1e-6).to(weight.dtype)
    return (weight.float() / scales.float()[:, None]).round().clamp(-127, 127).to(torch.int8), scales


class Int8Linear(nn.Module):
    """Linear layer without a bias whose weights are int8: [*, K] to [*, N]. A row has a scale: weight = q * scale.

    Args:
        weight: Weights to quantise, [N, K], float32, bfloat16 or float16. Inputs have its dtype.
    """

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Buffer(torch.empty_like(weight, dtype=torch.int8, requires_grad=False))
        self.scales = nn.Buffer(weight.new_empty(weight.shape[0]))
        for some in rows_at_once(weight):
            self.weight[some], self.scales[some] = quantise_rows(weight[some])

    def forward(self, x: Tensor) -> Tensor:
        """Return the product of inputs and weights."""
        product: Tensor = torch.ops.aten._weight_int8pack_mm(x.flatten(0, -2), self.weight, self.scales)
        return product.reshape(*x.shape[:-1], -1)

    def dequantised(self) -> Tensor:
        """Return the weights that the layer multiplies with, [N, K], in float32."""
        return self.weight.float() * self.scales.float()[:, None]


def quantise_groups(weight: Tensor, group: int) -> tuple[Tensor, Tensor]:
    """Quantise weights to 4 bits, with a scale and a zero for each group of weights of a row: weight = (q - 8) * scale + zero.

    The range of a group is from its least to its greatest weight.

    Args:
        weight: Weights, [N, K], float32, bfloat16 or float16.
        group: Number of weights of a group.

    Returns:
        q: [N, K], int32, from 0 to 15.
        scales_and_zeros: [K / group, N, 2], of the weights' dtype.
    """
    groups = weight.float().unflatten(1, (-1, group))
    least, most = groups.aminmax(dim=-1, keepdim=True)
    # Scales and zeros are rounded to their dtype before the weights are quantised by them.
    scale = ((most - least).clamp(min=1e-6) / 15).to(weight.dtype)
    zero = (least + 8 * scale.float()).to(weight.dtype)
    quantised = ((groups - zero.float()) / scale.float()).round().add(8).clamp(0, 15).to(torch.int32)
    return quantised.flatten(1), torch.cat((scale, zero), dim=-1).transpose(0, 1).contiguous()


class Int4Linear(nn.Module):
    """Linear layer without a bias whose weights have 4 bits: [*, K] to [*, N].

    The packed weights of a device are its own: another processor may expect another order.

    Args:
        weight: Weights to quantise, [N, K], float32, bfloat16 or float16. Inputs have its dtype.
        group: Number of consecutive weights of a row that share a scale and a zero: 32, 64, 128 or 256.

    Raises:
        ValueError: If N is not a multiple of 16, or K not of the group, or there is no such group.
    """

    def __init__(self, weight: Tensor, group: int = 32) -> None:
        super().__init__()
        rows, columns = weight.shape
        if group not in GROUPS or rows % ROWS or columns % group:
            raise ValueError(
                f"{rows} x {columns} weights in groups of {group}: one of {GROUPS} divides the columns, {ROWS} the rows"
            )
        self.group = group
        self.scales_and_zeros = nn.Buffer(weight.new_empty(columns // group, rows, 2))
        quantised = torch.empty_like(weight, dtype=torch.int32, requires_grad=False)
        for some in rows_at_once(weight):
            quantised[some], self.scales_and_zeros[:, some] = quantise_groups(weight[some], group)
        self.weight = nn.Buffer(torch.ops.aten._convert_weight_to_int4pack_for_cpu(quantised, 2))

    def forward(self, x: Tensor) -> Tensor:
        """Return the product of inputs and weights."""
        flat = x.flatten(0, -2).contiguous()
        product: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(flat, self.weight, self.group, self.scales_and_zeros)
        return product.reshape(*x.shape[:-1], -1)

    def dequantised(self) -> Tensor:
        """Return the weights that the layer multiplies with, [N, K], in float32."""
        columns = self.weight.shape[1] * 2
        rows: Tensor = self(torch.eye(columns, dtype=self.scales_and_zeros.dtype, device=self.weight.device))
        return rows.T.float()
