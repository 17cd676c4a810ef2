"""Computation with sparse COO tensors, composed of operators on their indices and values.

Sparse gradients of embeddings and their optimizers use these operators. Operators that do not compute are in
``shim/ops/sparse_and_quantized.cpp``; the remaining operators fall back.
"""

import math
from typing import Any

import torch
from torch import Tensor

from .registration import fallback, kernel, scalar_type, widened

_KEY = "SparsePrivateUse1"
_FALL_BACK = {name: fallback(name, _KEY) for name in ("sparse_mask", "add.out", "mul.out")}


def _as_rows(dense: Tensor, dims: int) -> Tensor:
    """Flatten the first ``dims`` dimensions of a dense tensor, as a view if possible."""
    return dense.reshape(math.prod(dense.shape[:dims]), *dense.shape[dims:])


def _rows_of(sparse: Tensor) -> Tensor:
    """Return the linear index of each value over the sparse dimensions: (nnz), int64."""
    indices = sparse._indices()
    rows = indices[0] if sparse.sparse_dim() > 0 else indices.new_zeros(indices.size(1))
    for dim in range(1, sparse.sparse_dim()):
        rows = rows.mul(sparse.size(dim)).add_(indices[dim])
    return rows


def _indices_of(rows: Tensor, sparse: Tensor) -> Tensor:
    """Return the indices (sparse_dim, nnz) of linear indices: the inverse of ``_rows_of``."""
    indices = rows.new_empty(sparse.sparse_dim(), rows.size(0))
    for dim in reversed(range(sparse.sparse_dim())):
        indices[dim].copy_(rows.remainder(sparse.size(dim)))
        rows = rows.floor_divide(sparse.size(dim))
    return indices


def _like(sparse: Tensor, indices: Tensor, values: Tensor, is_coalesced: bool) -> Tensor:
    """Return a sparse tensor with the sizes of ``sparse`` and the given indices and values."""
    result: Tensor = torch.ops.aten._sparse_coo_tensor_with_dims_and_tensors(
        sparse.sparse_dim(),
        sparse.dense_dim(),
        sparse.shape,
        indices,
        values,
        dtype=values.dtype,
        layout=torch.sparse_coo,
        device=sparse.device,
        is_coalesced=is_coalesced,
    )
    return result


def _assign(out: Tensor, result: Tensor) -> Tensor:
    """Assign the sizes, indices and values of ``result`` to a sparse tensor, which then shares their memory."""
    out.data = result
    return out


@kernel("_coalesce", _KEY)
def coalesce(self: Tensor) -> Tensor:
    """Return the coalesced tensor: values with equal indices are summed. Waits for the number of distinct indices."""
    if self._nnz() < 2:
        return self.clone()._coalesced_(True)
    rows, place, _ = torch._unique2(_rows_of(self), sorted=True, return_inverse=True)
    values = self._values()
    sums = values.new_zeros(rows.size(0), *values.shape[1:]).index_add_(0, place, values)
    return _like(self, _indices_of(rows, self), sums, True)


@kernel("sparse_mask", _KEY, with_keyset=True)
def sparse_mask(keys: torch.DispatchKeySet, self: Tensor, mask: Tensor) -> Tensor:
    """Return the values of a dense tensor at the indices of a sparse one."""
    is_plain = self.layout is torch.strided and mask.layout is torch.sparse_coo
    if not is_plain or self.shape != mask.shape or self.device != mask.device:
        found: Tensor = _FALL_BACK["sparse_mask"](keys, self, mask)
        return found
    values = _as_rows(self, mask.sparse_dim()).index_select(0, _rows_of(mask))
    return _like(mask, mask._indices(), values.to(mask.dtype), mask.is_coalesced())


@kernel("add.out", _KEY, with_keyset=True)
def add_out(keys: torch.DispatchKeySet, self: Tensor, other: Tensor | float, *, alpha: float = 1, out: Tensor) -> Tensor:
    """Write the sum of a dense or sparse tensor and a sparse tensor to ``out``."""
    if not isinstance(other, Tensor):
        other = torch.tensor(other)
    fits = (
        other.layout is torch.sparse_coo
        and self.shape == other.shape
        and self.device == other.device == out.device
        and self.dtype is other.dtype is out.dtype
        and self.layout is out.layout
    )
    if fits and self.layout is torch.strided:
        if out is not self:
            out.resize_as_(self).copy_(self)
        rows = _as_rows(out, other.sparse_dim())
        rows.index_add_(0, _rows_of(other), other._values(), alpha=alpha)
        return out if rows.data_ptr() == out.data_ptr() else out.copy_(rows.view(out.shape))
    if fits and self.layout is torch.sparse_coo and self.sparse_dim() == other.sparse_dim():
        values = torch.cat([self._values(), other._values() if alpha == 1 else other._values().mul(alpha)])
        total = _like(self, torch.cat([self._indices(), other._indices()], 1), values, False)
        return _assign(out, total.coalesce() if self.is_coalesced() and other.is_coalesced() else total)
    found: Tensor = _FALL_BACK["add.out"](keys, self, other, alpha=alpha, out=out)
    return found


@kernel("mul.out", _KEY, with_keyset=True)
def mul_out(keys: torch.DispatchKeySet, self: Tensor, other: Tensor | float, *, out: Tensor) -> Tensor:
    """Write the product of a sparse tensor and a number, or a dense tensor without dimensions, to ``out``."""
    is_number = not isinstance(other, Tensor) or (other.dim() == 0 and other.layout is torch.strided)
    if not is_number or self.layout is not torch.sparse_coo or out.layout is not torch.sparse_coo:
        found: Tensor = _FALL_BACK["mul.out"](keys, self, other, out=out)
        return found
    values = self._values().mul(other)
    if not torch.can_cast(values.dtype, out.dtype):
        found_type, wanted = scalar_type(values.dtype), scalar_type(out.dtype)
        raise RuntimeError(f"result type {found_type} can't be cast to the desired output type {wanted}")
    return _assign(out, _like(self, self._indices(), values.to(out.dtype), self.is_coalesced()))


@kernel("mv", _KEY)
def mv(self: Tensor, vec: Tensor) -> Tensor:
    """Return the product of a sparse matrix and a vector. The checks are those of PyTorch's CPU kernel."""
    if self.dim() != 2 or vec.dim() != 1:
        raise RuntimeError(f"mv: two tensor dim should be 2 and 1, but got SparseTensor Dim: {self.dim()}Tensor Dim: {vec.dim()}")
    if self.size(-1) != vec.size(-1):
        raise RuntimeError("mv: expected self.size(-1) == vec.size(-1)")
    return torch.mm(self, vec.unsqueeze(1)).squeeze(1)


def _widen(name: str) -> None:
    """Make a product of 16 bit floats compute in float32 and round once. PyTorch's CPU kernels round every partial sum."""
    fall_back = fallback(name, _KEY)
    operator = getattr(torch.ops.aten, name.removesuffix(".out").removesuffix("_")).default
    is_in_place = name.endswith("_")

    @kernel(name, _KEY, with_keyset=True)
    def product(keys: torch.DispatchKeySet, *args: Any, **kwargs: Any) -> Tensor:
        dtypes = {arg.dtype for arg in (*args, *kwargs.values()) if isinstance(arg, Tensor)}
        if len(dtypes) != 1 or not dtypes <= {torch.float16, torch.bfloat16}:
            found: Tensor = fall_back(keys, *args, **kwargs)
            return found
        out = args[0] if is_in_place else kwargs.pop("out", None)
        result: Tensor = operator(*(widened(arg) if isinstance(arg, Tensor) else arg for arg in args), **kwargs).to(*dtypes)
        if out is None:
            return result
        if out.layout is torch.sparse_coo:
            return _assign(out, result)
        written: Tensor = (out if is_in_place else out.resize_(result.shape)).copy_(result)
        return written


for _name in ("addmm", "addmm_", "addmm.out", "mm", "mm.out", "hspmm", "hspmm.out"):
    _widen(_name)
