"""Operators composed of others: dot products, physical conjugates, and the gradient of PReLU."""

import torch
from torch import Tensor

from .registration import kernel, scalar_type


@kernel("dot")
def dot(self: Tensor, tensor: Tensor) -> Tensor:
    """Return the dot product of two vectors. The checks are those of PyTorch's CPU kernel."""
    if self.dim() != 1 or tensor.dim() != 1:
        raise RuntimeError(f"1D tensors expected, but got {self.dim()}D and {tensor.dim()}D tensors")
    if self.dtype is not tensor.dtype:
        found = f"{scalar_type(self.dtype)} and {scalar_type(tensor.dtype)}"
        raise RuntimeError(f"dot : expected both vectors to have same dtype, but found {found}")
    if self.numel() != tensor.numel():
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{self.numel()}] and src [{tensor.numel()}] to have the same number of "
            f"elements, but got {self.numel()} and {tensor.numel()} elements respectively"
        )
    return torch.mv(self.unsqueeze(0), tensor).squeeze(0)


@kernel("vdot")
def vdot(self: Tensor, other: Tensor) -> Tensor:
    """Return the dot product of the conjugate of the first vector and the second vector."""
    return dot(self.conj(), other)


@kernel("_conj_physical")
def conj_physical(self: Tensor) -> Tensor:
    """Return the conjugate in new memory: clone materializes the conjugate bit."""
    return self.conj().clone()


@kernel("conj_physical_")
def conj_physical_(self: Tensor) -> Tensor:
    """Conjugate the elements in place."""
    if self.is_complex() and self.is_conj():
        return self.copy_(self.conj())
    if self.is_complex():
        self.imag.neg_()
    return self


@kernel("_prelu_kernel_backward")
def prelu_backward(grad_output: Tensor, self: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of the input and of the weight. The latter is not reduced: it has the size of the input."""
    positive, zero = self.gt(0), torch.zeros((), dtype=self.dtype, device=self.device)
    return torch.where(positive, grad_output, grad_output.mul(weight)), torch.where(positive, zero, grad_output.mul(self))
