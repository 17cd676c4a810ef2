// Sparse COO tensors, as the gradients of embeddings are and their optimizers use them. The bookkeeping is PyTorch's own; what
// computes is made of the device's operators on indices and values. What is not here goes to the fallback.
#include <ATen/Functions.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/ops/_coalesced_native.h>
#include <ATen/ops/_indices_native.h>
#include <ATen/ops/_nnz_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_native.h>
#include <ATen/ops/_to_dense_native.h>
#include <ATen/ops/_values_native.h>
#include <ATen/ops/add_native.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/copy_sparse_to_sparse_native.h>
#include <ATen/ops/dense_dim_native.h>
#include <ATen/ops/div_native.h>
#include <ATen/ops/empty_native.h>
#include <ATen/ops/indices_native.h>
#include <ATen/ops/is_coalesced_native.h>
#include <ATen/ops/mul_native.h>
#include <ATen/ops/neg_native.h>
#include <ATen/ops/norm_native.h>
#include <ATen/ops/sparse_dim_native.h>
#include <ATen/ops/sparse_resize_and_clear_native.h>
#include <ATen/ops/sparse_resize_native.h>
#include <ATen/ops/values_native.h>
#include <ATen/ops/zero_native.h>
#include <torch/library.h>

#include "ops/fallback.h"

namespace rustdev {
namespace {

constexpr c10::DispatchKeySet sparse_keys({c10::DispatchKey::PrivateUse1, c10::DispatchKey::SparsePrivateUse1});

// A dense tensor whose first dimensions are one: a view where there is one.
at::Tensor as_rows(const at::Tensor& dense, int64_t dims) {
  c10::SmallVector<int64_t, 5> sizes{c10::multiply_integers(dense.sizes().slice(0, dims))};
  sizes.append(dense.sizes().begin() + dims, dense.sizes().end());
  return dense.reshape(sizes);
}

// For each value of a sparse tensor the row of such a tensor that it belongs to: (nnz), int64.
at::Tensor rows_of(const at::Tensor& sparse) {
  const at::Tensor indices = sparse._indices();
  if (indices.size(0) == 1) {
    return indices.select(0, 0);
  }
  at::Tensor rows = at::zeros({indices.size(1)}, indices.options());
  for (int64_t dim = 0; dim < indices.size(0); ++dim) {
    rows = rows.mul(sparse.size(dim)).add_(indices.select(0, dim));
  }
  return rows;
}

// The reverse: the indices (sparse_dim, nnz) of rows.
at::Tensor indices_of(at::Tensor rows, const at::Tensor& sparse) {
  at::Tensor indices = at::empty({sparse.sparse_dim(), rows.size(0)}, rows.options());
  for (int64_t dim = sparse.sparse_dim() - 1; dim >= 0; --dim) {
    indices.select(0, dim).copy_(rows.remainder(sparse.size(dim)));
    rows = rows.floor_divide(sparse.size(dim));
  }
  return indices;
}

at::Tensor like(const at::Tensor& sparse, const at::Tensor& indices, const at::Tensor& values, bool is_coalesced) {
  return at::_sparse_coo_tensor_with_dims_and_tensors(sparse.sparse_dim(), sparse.dense_dim(), sparse.sizes(), indices, values,
                                                      sparse.options().dtype(values.scalar_type()), is_coalesced);
}

at::Tensor& assign(at::Tensor& out, const at::Tensor& result) {
  auto* const impl = static_cast<at::SparseTensorImpl*>(out.unsafeGetTensorImpl());
  impl->raw_resize_(result.sparse_dim(), result.dense_dim(), result.sizes());
  impl->set_indices_and_values_unsafe(result._indices(), result._values());
  impl->set_coalesced(result.is_coalesced());
  return out;
}

// Waits to know how many positions are different.
at::Tensor coalesce(const at::Tensor& self) {
  if (self._nnz() < 2) {
    return self.clone()._coalesced_(true);
  }
  const auto [rows, place, counts] = at::_unique2(rows_of(self), /*sorted=*/true, /*return_inverse=*/true);
  const at::Tensor values = self._values();
  c10::SmallVector<int64_t, 5> sizes(values.sizes().begin(), values.sizes().end());
  sizes[0] = rows.size(0);
  return like(self, indices_of(rows, self), at::zeros(sizes, values.options()).index_add_(0, place, values), true);
}

at::Tensor sparse_mask(const at::Tensor& self, const at::Tensor& mask) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::sparse_mask", "");
  if (self.layout() != at::kStrided || mask.layout() != at::kSparse || self.sizes() != mask.sizes() ||
      self.device() != mask.device()) {
    return call_fallback_of<at::Tensor, const at::Tensor&, const at::Tensor&>(sparse_keys, op, self, mask);
  }
  const at::Tensor values = as_rows(self, mask.sparse_dim()).index_select(0, rows_of(mask));
  return like(mask, mask._indices(), values.to(mask.scalar_type()), mask.is_coalesced());
}

at::Tensor& add_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "out");
  const c10::ScalarType dtype = out.scalar_type();
  const bool fits = other.layout() == at::kSparse && self.sizes() == other.sizes() && self.device() == other.device() &&
                    self.device() == out.device() && self.scalar_type() == dtype && other.scalar_type() == dtype &&
                    self.layout() == out.layout();
  if (fits && self.layout() == at::kStrided) {
    if (!out.is_same(self)) {
      out.resize_as_(self).copy_(self);
    }
    at::Tensor rows = as_rows(out, other.sparse_dim());
    rows.index_add_(0, rows_of(other), other._values(), alpha);
    return rows.is_alias_of(out) ? out : out.copy_(rows.view(out.sizes()));
  }
  if (fits && self.layout() == at::kSparse && self.sparse_dim() == other.sparse_dim()) {
    const at::Tensor values = at::cat({self._values(), alpha.equal(1) ? other._values() : other._values().mul(alpha)});
    const at::Tensor sum = like(self, at::cat({self._indices(), other._indices()}, 1), values, false);
    return assign(out, self.is_coalesced() && other.is_coalesced() ? sum.coalesce() : sum);
  }
  return call_fallback_of<at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Scalar&, at::Tensor&>(sparse_keys, op, self,
                                                                                                             other, alpha, out);
}

at::Tensor& mul_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::mul", "out");
  if (self.layout() != at::kSparse || other.dim() != 0 || other.layout() != at::kStrided || out.layout() != at::kSparse) {
    return call_fallback_of<at::Tensor&, const at::Tensor&, const at::Tensor&, at::Tensor&>(sparse_keys, op, self, other, out);
  }
  const at::Tensor values = self._values().mul(other);
  TORCH_CHECK(c10::canCast(values.scalar_type(), out.scalar_type()), "result type ", values.scalar_type(),
              " can't be cast to the desired output type ", out.scalar_type());
  return assign(out, like(self, self._indices(), values.to(out.scalar_type()), self.is_coalesced()));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  // Made of the device's operators.
  m.impl("_coalesce", TORCH_FN(coalesce));
  m.impl("add.out", TORCH_FN(add_out));
  m.impl("mul.out", TORCH_FN(mul_out));
  m.impl("sparse_mask", TORCH_FN(sparse_mask));
  // PyTorch's own.
  m.impl("_coalesced_", TORCH_FN(at::native::_coalesced_sparse_));
  m.impl("_indices", TORCH_FN(at::native::_indices_sparse));
  m.impl("_nnz", TORCH_FN(at::native::_nnz_sparse));
  m.impl("_sparse_coo_tensor_with_dims", TORCH_FN(at::native::new_with_dims_sparse));
  m.impl("_sparse_coo_tensor_with_dims_and_tensors", TORCH_FN(at::native::new_with_dims_and_tensor_sparse_symint));
  m.impl("_to_dense", TORCH_FN(at::native::sparse_to_dense));
  m.impl("_values", TORCH_FN(at::native::_values_sparse));
  m.impl("add.Tensor", TORCH_FN(at::native::add_sparse));
  m.impl("add_.Tensor", TORCH_FN(at::native::add_sparse_));
  m.impl("clone", TORCH_FN(at::native::clone_sparse));
  m.impl("copy_sparse_to_sparse_", TORCH_FN(at::native::copy_sparse_));
  m.impl("dense_dim", TORCH_FN(at::native::dense_dim_sparse));
  m.impl("empty.memory_format", TORCH_FN(at::native::empty_sparse_symint));
  m.impl("indices", TORCH_FN(at::native::indices_sparse));
  m.impl("is_coalesced", TORCH_FN(at::native::is_coalesced_sparse));
  m.impl("mul.Tensor", TORCH_FN(at::native::mul_sparse));
  m.impl("mul_.Tensor", TORCH_FN(at::native::mul_sparse_));
  m.impl("neg", TORCH_FN(at::native::neg_sparse));
  m.impl("neg.out", TORCH_FN(at::native::neg_out_sparse));
  m.impl("neg_", TORCH_FN(at::native::neg_sparse_));
  m.impl("norm.ScalarOpt_dim", TORCH_FN(at::native::sparse_norm));
  m.impl("norm.ScalarOpt_dim_dtype", TORCH_FN(at::native::sparse_dtype_norm));
  m.impl("sparse_dim", TORCH_FN(at::native::sparse_dim_sparse));
  m.impl("sparse_resize_", TORCH_FN(at::native::sparse_resize_));
  m.impl("sparse_resize_and_clear_", TORCH_FN(at::native::sparse_resize_and_clear_));
  m.impl("values", TORCH_FN(at::native::values_sparse));
  m.impl("zero_", TORCH_FN(at::native::zero_sparse_));
}

}  // namespace rustdev
