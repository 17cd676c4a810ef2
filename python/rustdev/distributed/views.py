"""Views of device memory for Gloo: flat CPU tensors over the same bytes.

Device memory is memory of the process, so nothing is copied. A view does not own the memory. The caller keeps the tensor alive
until Gloo has finished with it, and has checked that it is dense (``checks``).
"""

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed import ReduceOp

from .._name import NAME

_CPU = torch.device("cpu")
#: Dtype of a tensor to the dtype that Gloo reduces: booleans as bytes, complex numbers as pairs.
_NUMBERS = {dtype: dtype for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16)}
_NUMBERS |= {dtype: dtype for dtype in (torch.int8, torch.uint8, torch.int32, torch.int64)}
_NUMBERS |= {torch.bool: torch.uint8, torch.complex64: torch.float32, torch.complex128: torch.float64}
#: Reductions of booleans. A sum would yield bytes other than 0 and 1, so as in NCCL a sum is "any" and a product is "all".
_BOOLEAN = {ReduceOp.SUM: ReduceOp.MAX, ReduceOp.PRODUCT: ReduceOp.MIN, ReduceOp.BAND: ReduceOp.MIN, ReduceOp.BOR: ReduceOp.MAX}
_PREMULTIPLIED = getattr(ReduceOp, "PREMUL_SUM", None)
_BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


@functools.lru_cache(maxsize=512)
def _memory(address: int, size: int, dtype: torch.dtype) -> Tensor:
    """Return memory as a non-owning tensor. The result is cached, because programs use the same tensors repeatedly."""
    view = torch.empty(0, dtype=dtype, device=_CPU)
    if size == 0:
        return view
    storage = torch._C._construct_storage_from_data_pointer(address, _CPU, size)
    return view.set_(storage, 0, (size // dtype.itemsize,), (1,))


def _view(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return _memory(tensor.data_ptr(), tensor.nbytes, dtype)


def as_bytes(tensor: Tensor) -> Tensor:
    """Return a dense tensor's memory as bytes, for operations that only move data."""
    return _view(tensor, torch.uint8)


def as_numbers(tensor: Tensor) -> Tensor:
    """Return a dense tensor's memory as numbers of the dtype that Gloo reduces."""
    return _view(tensor, _NUMBERS[tensor.dtype])


def is_premultiplied(op: Any) -> bool:
    """Return whether a reduction is ``PREMUL_SUM``, which not every build of torch has."""
    return bool(op.op == _PREMULTIPLIED)


def check_reduction(op: Any, tensors: Sequence[Tensor], device: int) -> None:
    """Check that a reduction is supported, before anything is sent.

    Raises:
        TypeError: If it is not defined for the dtype of a tensor.
        ValueError: If its factor is a tensor on another device.
    """
    for tensor in tensors:
        gloo_reduction(op, tensor.dtype)
    if is_premultiplied(op) and isinstance(factor := op.factor, Tensor) and factor.device != torch.device(NAME, device):
        raise ValueError(f"rdccl takes as a factor a number or a tensor of {NAME}:{device}, but got one of {factor.device}")


def gloo_reduction(op: Any, dtype: torch.dtype) -> ReduceOp:
    """Return the reduction for Gloo to apply to ``as_numbers`` of the tensors.

    Args:
        op: Reduction of the tensors.
        dtype: Dtype of the tensors.

    Raises:
        TypeError: If the reduction is not defined for the dtype.
    """
    return _other_reduction(op.op, dtype) or op


@functools.cache
def _other_reduction(kind: Any, dtype: torch.dtype) -> ReduceOp | None:
    """Return the reduction that Gloo applies instead of ``kind``; None if it applies ``kind`` itself."""
    if dtype not in _NUMBERS:
        raise TypeError(f"rdccl cannot reduce tensors of {dtype}")
    is_fractional = dtype.is_floating_point or dtype.is_complex
    is_multiple = kind == _PREMULTIPLIED
    if (
        (is_fractional and kind in _BITWISE)
        or (not is_fractional and (kind == ReduceOp.AVG or is_multiple))
        or (dtype.is_complex and not (kind in (ReduceOp.SUM, ReduceOp.AVG) or is_multiple))
    ):
        raise TypeError(f"rdccl cannot reduce tensors of {dtype} by {kind}")
    if is_multiple:  # the tensor is multiplied by the factor before
        return ReduceOp(ReduceOp.SUM)
    if dtype is torch.bool and kind in _BOOLEAN:
        return ReduceOp(_BOOLEAN[kind])
    return None
