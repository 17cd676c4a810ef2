"""The gradients of embedding bags."""

import torch
from torch import Tensor

from .registration import kernel, widened

_SUM, _MEAN, _MAX = 0, 1, 2


@kernel("_embedding_bag_dense_backward")
def dense_backward(
    grad: Tensor,
    indices: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    """Return the dense gradient of the weight: each index gets its bag's gradient; in mode "max" only the maximum's index does."""
    if mode == _MAX:
        result = grad.new_zeros(num_weights, grad.size(1))
        is_empty = bag_size[: grad.size(0)].unsqueeze(1).eq(0)
        if num_weights == 0:
            return result
        return result.scatter_add_(0, maximum_indices.to(torch.long), grad.masked_fill(is_empty, 0))
    # For 16 bit floats, scaled summands are kept in float32 and only the sums are rounded.
    scaled = per_sample_weights is not None or mode == _MEAN
    rows = (widened(grad) if scaled else grad).index_select(0, offset2bag)
    if per_sample_weights is not None:
        rows.mul_(per_sample_weights.unsqueeze(1))
    if mode == _MEAN:
        rows.div_(bag_size.index_select(0, offset2bag).clamp_min_(1).unsqueeze(1))
    found: Tensor = torch.ops.aten.embedding_dense_backward(rows, indices, num_weights, padding_idx, scale_grad_by_freq)
    return found.to(grad.dtype)


@kernel("_embedding_bag_backward")
def backward(
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    """Return the gradient of the weight, sparse or dense."""
    if indices.dtype not in (torch.long, torch.int):
        raise RuntimeError(
            "Expected tensor for argument #2 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{indices.type()} instead (while checking arguments for embedding_bag)"
        )
    found: Tensor
    if sparse:
        found = torch.ops.aten._embedding_bag_sparse_backward(
            grad, indices, offsets, offset2bag, bag_size, num_weights, scale_grad_by_freq, mode, per_sample_weights, padding_idx
        )
    else:
        found = torch.ops.aten._embedding_bag_dense_backward(
            grad,
            indices,
            offset2bag,
            bag_size,
            maximum_indices,
            num_weights,
            scale_grad_by_freq,
            mode,
            per_sample_weights,
            padding_idx,
        )
    return found


@kernel("_embedding_bag_per_sample_weights_backward")
def per_sample_weights_backward(
    grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, mode: int, padding_idx: int = -1
) -> Tensor:
    """Return the gradient of per_sample_weights: for each index the dot product of its row and its bag's gradient."""
    if mode != _SUM:
        raise RuntimeError("embedding_bag_backward: per_sample_weights only supported for mode='sum'")
    result = widened(grad).index_select(0, offset2bag).mul_(weight.index_select(0, indices)).sum(1).to(grad.dtype)
    return result if padding_idx < 0 else result.masked_fill_(indices.eq(padding_idx), 0)
