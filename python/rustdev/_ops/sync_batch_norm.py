"""Operators of torch.nn.SyncBatchNorm, composed of other operators.

Each process reduces its own samples, the statistics are gathered, and every element is normalized with the statistics of all
samples. PyTorch has these operators for CUDA only. Dimension 1 is the channels. Statistics of float16 and bfloat16 samples are
float32, as on CUDA.
"""

import torch
from torch import Tensor

from .registration import kernel, widened


def _check_channels(x: Tensor) -> None:
    if x.dim() < 2:
        raise RuntimeError(f"batch norm: expected at least 2 dimensions, got {x.dim()}")


def _reduced(x: Tensor) -> list[int]:
    """Return all dimensions except that of the channels."""
    _check_channels(x)
    return [dim for dim in range(x.dim()) if dim != 1]


def _channels(values: Tensor, x: Tensor) -> Tensor:
    """Reshape one value per channel so that it broadcasts over the samples."""
    _check_channels(x)
    return values.view([1, -1, *[1] * (x.dim() - 2)])


@kernel("batch_norm_stats")
def stats(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return the mean and the inverse standard deviation of each channel."""
    wide, dims = widened(x), _reduced(x)
    mean = wide.mean(dims)
    variance = wide.sub(_channels(mean, x)).square_().mean(dims)
    return mean, variance.add_(eps).rsqrt_()


@kernel("batch_norm_elemt")
def elemt(x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, eps: float) -> Tensor:
    """Return the normalized samples."""
    out = widened(x).sub(_channels(mean, x)).mul_(_channels(invstd, x))
    if weight is not None:
        out.mul_(_channels(weight, x))
    if bias is not None:
        out.add_(_channels(bias, x))
    return out.to(x.dtype)


@kernel("batch_norm_elemt.out")
def elemt_out(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, eps: float, *, out: Tensor
) -> Tensor:
    """Write the normalized samples to ``out``."""
    result = elemt(x, weight, bias, mean, invstd, eps)
    return out.resize_(result.shape).copy_(result)


@kernel("batch_norm_gather_stats_with_counts")
def gather_stats_with_counts(
    x: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the mean and inverse standard deviation of all samples, given those of groups, one per row, with `counts` samples."""
    weights = counts.to(mean.dtype).view(-1, 1)
    total = weights.sum()
    all_mean = mean.mul(weights).sum(0).div_(total)
    variances = invstd.square().reciprocal_().sub_(eps)
    squares = mean.sub(all_mean).square_().add_(variances).mul_(weights).sum(0)
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(all_mean, alpha=momentum)
    if running_var is not None:
        running_var.mul_(1 - momentum).add_(squares.div(total.sub(1)), alpha=momentum)
    return all_mean, squares.div(total).add_(eps).rsqrt_()


@kernel("batch_norm_gather_stats")
def gather_stats(
    x: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    count: int,
) -> tuple[Tensor, Tensor]:
    """Return the mean and inverse standard deviation of all samples, given those of groups of `count` samples each."""
    counts = torch.full((mean.size(0),), count, dtype=mean.dtype, device=mean.device)
    return gather_stats_with_counts(x, mean, invstd, running_mean, running_var, momentum, eps, counts)


@kernel("batch_norm_backward_reduce")
def backward_reduce(
    grad_out: Tensor,
    x: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Tensor | None, ...]:
    """Return sum(dy), sum(dy * (x - mean)) and the gradients of weight and bias, each over this process's samples."""
    dims, grad = _reduced(x), widened(grad_out)
    sum_dy = grad.sum(dims)
    sum_dy_xmu = widened(x).sub(_channels(mean, x)).mul_(grad).sum(dims)
    dtype = x.dtype if weight is None else weight.dtype
    return (
        sum_dy if input_g else None,
        sum_dy_xmu if input_g else None,
        sum_dy_xmu.mul(invstd).to(dtype) if weight_g else None,
        sum_dy.to(dtype, copy=True) if bias_g else None,
    )


@kernel("batch_norm_backward_elemt")
def backward_elemt(
    grad_out: Tensor,
    x: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    count: Tensor,
) -> Tensor:
    """Return the gradient of x, given the sums over all samples."""
    total = count.sum().to(mean.dtype)
    slope = sum_dy_xmu.div(total).mul_(invstd.square())
    centred = widened(x).sub(_channels(mean, x)).mul_(_channels(slope, x))
    result = widened(grad_out).sub(_channels(sum_dy.div(total), x)).sub_(centred).mul_(_channels(invstd, x))
    if weight is not None:
        result.mul_(_channels(weight, x))
    return result.to(x.dtype)
