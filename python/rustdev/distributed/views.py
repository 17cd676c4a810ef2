"""Device memory as Gloo sees it: flat CPU tensors over the same bytes.

Device memory is memory of the process, so nothing is copied. A view does not keep the memory: its maker holds the tensor
until Gloo has finished with it, and has seen to it that it is dense (``checks``).
"""

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed import ReduceOp

__all__ = ["as_bytes", "as_numbers", "check_reduction", "gloo_reduction", "is_premultiplied"]

_CPU = torch.device("cpu")
#: How Gloo reads what it computes with. Booleans are bytes, complex numbers pairs.
_NUMBERS = {dtype: dtype for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16)}
_NUMBERS |= {dtype: dtype for dtype in (torch.int8, torch.uint8, torch.int32, torch.int64)}
_NUMBERS |= {torch.bool: torch.uint8, torch.complex64: torch.float32, torch.complex128: torch.float64}
#: Sums of booleans would leave bytes other than 0 and 1; as NCCL has it, a sum is "any" and a product is "all".
_BOOLEAN = {ReduceOp.SUM: ReduceOp.MAX, ReduceOp.PRODUCT: ReduceOp.MIN, ReduceOp.BAND: ReduceOp.MIN, ReduceOp.BOR: ReduceOp.MAX}
_PREMULTIPLIED = getattr(ReduceOp, "PREMUL_SUM", None)
_BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


@functools.lru_cache(maxsize=512)
def _memory(address: int, size: int, dtype: torch.dtype) -> Tensor:
    """Return memory as a tensor, which holds nothing: programs use the same again and again."""
    view = torch.empty(0, dtype=dtype, device=_CPU)
    if size == 0:
        return view
    storage = torch._C._construct_storage_from_data_pointer(address, _CPU, size)
    return view.set_(storage, 0, (size // dtype.itemsize,), (1,))


def _view(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return _memory(tensor.data_ptr(), tensor.nbytes, dtype)


def as_bytes(tensor: Tensor) -> Tensor:
    """Return a dense tensor's memory as bytes, for what only moves it."""
    return _view(tensor, torch.uint8)


def as_numbers(tensor: Tensor) -> Tensor:
    """Return a dense tensor's memory as the numbers that Gloo reduces."""
    return _view(tensor, _NUMBERS[tensor.dtype])


def is_premultiplied(op: Any) -> bool:
    """Return whether a reduction is the sum of multiples, which not every build of torch has."""
    return bool(op.op == _PREMULTIPLIED)


def check_reduction(op: Any, tensors: Sequence[Tensor], device: int) -> None:
    """Refuse a reduction that cannot be served, before anything is sent.

    Raises:
        TypeError: It is not defined for the dtype of a tensor.
        ValueError: Its factor is a tensor elsewhere.
    """
    for tensor in tensors:
        gloo_reduction(op, tensor.dtype)
    if is_premultiplied(op) and isinstance(factor := op.factor, Tensor) and factor.device != torch.device("rustdev", device):
        raise ValueError(f"rdccl takes as a factor a number or a tensor of rustdev:{device}, but got one of {factor.device}")


def gloo_reduction(op: Any, dtype: torch.dtype) -> ReduceOp:
    """Return the reduction of ``as_numbers`` that is this one of the tensors.

    Args:
        op: The reduction.
        dtype: The dtype of the tensors.

    Raises:
        TypeError: It is not defined for the dtype.
    """
    return _other_reduction(op.op, dtype) or op


@functools.cache
def _other_reduction(kind: Any, dtype: torch.dtype) -> ReduceOp | None:
    """Return the reduction that Gloo is to take instead, if it is to."""
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
    if is_multiple:  # the factor has been multiplied with by then
        return ReduceOp(ReduceOp.SUM)
    if dtype is torch.bool and kind in _BOOLEAN:
        return ReduceOp(_BOOLEAN[kind])
    return None
