"""Device memory as Gloo sees it: flat CPU tensors over the same bytes.

Device memory is memory of the process, so nothing is copied. A view does not keep the memory: its maker holds the tensor
until Gloo has finished with it.
"""

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed import ReduceOp

__all__ = ["as_bytes", "as_numbers", "check_reduction", "common_device", "gloo_reduction", "is_premultiplied"]

_CPU = torch.device("cpu")
_STRIDED = torch.strided
#: How Gloo reads what it computes with. Booleans are bytes, complex numbers pairs.
_NUMBERS = {dtype: dtype for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16)}
_NUMBERS |= {dtype: dtype for dtype in (torch.int8, torch.uint8, torch.int32, torch.int64)}
_NUMBERS |= {torch.bool: torch.uint8, torch.complex64: torch.float32, torch.complex128: torch.float64}
#: Sums of booleans would leave bytes other than 0 and 1; as NCCL has it, a sum is "any" and a product is "all".
_BOOLEAN = {ReduceOp.SUM: ReduceOp.MAX, ReduceOp.PRODUCT: ReduceOp.MIN, ReduceOp.BAND: ReduceOp.MIN, ReduceOp.BOR: ReduceOp.MAX}
_PREMULTIPLIED = getattr(ReduceOp, "PREMUL_SUM", None)
_BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def common_device(tensors: Sequence[Tensor]) -> int:
    """Return the index of the device of all tensors.

    Raises:
        ValueError: There are none, or they are elsewhere or of several devices.
    """
    if not tensors:
        raise ValueError("rdccl needs at least one tensor")
    device = tensors[0].device
    for tensor in tensors:
        if tensor.device != device or device.type != "rustdev":
            raise ValueError(f"rdccl needs tensors of one rustdev device, but got tensors of {device} and {tensor.device}")
    return device.index


def _check_dense(tensor: Tensor) -> None:
    """Refuse what is not one run of memory, in whatever order of dimensions."""
    if tensor.layout is not _STRIDED:
        raise ValueError(f"rdccl needs dense tensors, but got one of layout {tensor.layout}")
    if not (tensor.is_contiguous() or torch.ops.aten.is_non_overlapping_and_dense(tensor)):
        raise ValueError("Tensors must be contiguous: rdccl sends memory as it lies, call contiguous()")


@functools.lru_cache(maxsize=512)
def _memory(address: int, size: int, dtype: torch.dtype) -> Tensor:
    """Return memory as a tensor, which holds nothing: programs use the same again and again."""
    view = torch.empty(0, dtype=dtype, device=_CPU)
    if size == 0:
        return view
    storage = torch._C._construct_storage_from_data_pointer(address, _CPU, size)
    return view.set_(storage, 0, (size // dtype.itemsize,), (1,))


def _view(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    _check_dense(tensor)
    return _memory(tensor.data_ptr(), tensor.nbytes, dtype)


def as_bytes(tensor: Tensor) -> Tensor:
    """Return a dense tensor's memory as bytes, for what only moves it.

    Raises:
        ValueError: The tensor is not dense.
    """
    return _view(tensor, torch.uint8)


def as_numbers(tensor: Tensor) -> Tensor:
    """Return a dense tensor's memory as the numbers that Gloo reduces.

    Raises:
        ValueError: The tensor is not dense.
    """
    return _view(tensor, _NUMBERS[tensor.dtype])


def is_premultiplied(op: Any) -> bool:
    """Return whether a reduction is the sum of multiples, which not every build of torch has."""
    return bool(op.op == _PREMULTIPLIED)


def check_reduction(op: Any, tensor: Tensor) -> None:
    """Refuse a reduction that cannot be served, before anything is sent.

    Raises:
        TypeError: It is not defined for the tensor's dtype.
    """
    gloo_reduction(op, tensor.dtype)


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
