"""Operators that PyTorch implements for some accelerators but not for the CPU, so that they cannot fall back."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .registration import kernel, widened


@kernel("_fused_rms_norm_backward")
def rms_norm_backward(
    grad_out: Tensor,
    x: Tensor,
    normalized_shape: Sequence[int],
    rstd: Tensor,
    weight: Tensor | None,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of x and weight.

    With y = x * rstd and g = dout * weight: dx = rstd * (g - y * mean(g * y)), and dweight = sum(dout * y) over the samples.
    """
    outer = x.dim() - len(normalized_shape)
    grad, scale = widened(grad_out), widened(rstd)
    y = widened(x).mul(scale)
    grad_input = grad_weight = None
    if output_mask[0]:
        g = grad if weight is None else grad.mul(weight)
        along = g.mul(y).mean(list(range(outer, x.dim())), keepdim=True)
        grad_input = g.sub(y.mul(along)).mul_(scale).to(x.dtype)
    if output_mask[1] and weight is not None:
        product = grad.mul(y)
        grad_weight = (product if outer == 0 else product.sum(list(range(outer)))).to(weight.dtype)
    return grad_input, grad_weight


@kernel("linear_backward")
def linear_backward(
    self: Tensor, grad_output: Tensor, weight: Tensor, output_mask: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return the gradients of linear. ``weight`` is (out, in); ``self`` may have any number of leading dimensions."""
    grad = grad_output.reshape(-1, weight.size(0))
    return (
        grad.mm(weight).view(self.shape) if output_mask[0] else None,
        grad.t().mm(self.reshape(-1, weight.size(1))) if output_mask[1] else None,
        grad.sum(0) if output_mask[2] else None,
    )


@kernel("matmul_backward")
def matmul_backward(grad: Tensor | None, self: Tensor, other: Tensor, mask: Sequence[bool]) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of matmul, including broadcast batches. A vector counts as a row (left) or a column (right) matrix."""
    if grad is None:
        return None, None
    left = self.unsqueeze(0) if self.dim() == 1 else self
    right = other.unsqueeze(1) if other.dim() == 1 else other
    wide = grad.unsqueeze(-1) if other.dim() == 1 else grad
    wide = wide.unsqueeze(-2) if self.dim() == 1 else wide
    return (
        torch.matmul(wide, right.mT).sum_to_size(left.shape).view_as(self) if mask[0] else None,
        torch.matmul(left.mT, wide).sum_to_size(right.shape).view_as(other) if mask[1] else None,
    )


@kernel("_conv_depthwise2d")
def conv_depthwise2d(
    self: Tensor,
    weight: Tensor,
    kernel_size: Sequence[int],
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """Return a depthwise convolution."""
    return torch.conv2d(self, weight, bias, stride, padding, dilation, self.size(1))


@kernel("_conv_depthwise2d.out")
def conv_depthwise2d_out(
    self: Tensor,
    weight: Tensor,
    kernel_size: Sequence[int],
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    *,
    out: Tensor,
) -> Tensor:
    """Write a depthwise convolution to ``out``."""
    result = conv_depthwise2d(self, weight, kernel_size, bias, stride, padding, dilation)
    torch.ops.aten._resize_output_(out, result.shape, out.device)
    return out.copy_(result)


@kernel("conv_depthwise3d")
def conv_depthwise3d(
    self: Tensor,
    weight: Tensor,
    kernel_size: Sequence[int],
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """Return a depthwise convolution."""
    return torch.conv3d(self, weight, bias, stride, padding, dilation, self.size(1))


@kernel("_masked_scale")
def masked_scale(self: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Return self * scale where the mask is 1, and 0 elsewhere."""
    return self.mul(mask.to(self.dtype)).mul_(scale)


@kernel("_fused_dropout")
def fused_dropout(self: Tensor, p: float, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Return the result of a dropout, and the mask (uint8). Unlike in dropout, `p` is the probability to keep an element."""
    mask = torch.empty_like(self, dtype=torch.uint8).bernoulli_(p, generator=generator)
    return masked_scale(self, mask, 1 / p), mask
