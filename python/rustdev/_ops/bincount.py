"""bincount. The number of bins is read from the device, so the operator waits."""

import torch
from torch import Tensor

from .registration import awaited, kernel, scalar_type

_READER = "bincount (values are read on the host)"


@kernel("bincount")
def bincount(self: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Return the frequency, or the sum of the weights, of each integer from 0 on. The checks are those of PyTorch's CPU kernel."""
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if self.dim() == 1 and self.numel() == 0:
        return self.new_zeros(minlength, dtype=torch.long)
    if self.is_floating_point() or self.is_complex() or self.dtype is torch.bool:
        raise NotImplementedError(f"\"bincount\" not implemented for '{scalar_type(self.dtype)}'")
    if self.dim() != 1:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and (weights.dim() != 1 or weights.numel() != self.numel()):
        raise RuntimeError("weights should be 1-d and have the same length as input")
    least, greatest = torch.aminmax(self)
    if awaited(least, _READER, 0) < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    bins = max(awaited(greatest, _READER, self.numel() - 1) + 1, minlength)
    if weights is None:
        weights = self.new_ones((), dtype=torch.long).expand_as(self)
    elif weights.dtype is not torch.float32:
        weights = weights.to(torch.float64)
    return weights.new_zeros(bins).index_add_(0, self.to(torch.long), weights)
