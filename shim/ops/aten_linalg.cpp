// Decompositions and solutions of matrices, and distances of their rows, by PyTorch's CPU kernels, as tasks of the stream.
//
// What has to tell the caller whether it converged (eigenvalues, singular values, least squares, `cholesky_inverse`) stays with the
// fallback, which waits.
#include <ATen/ops/_linalg_det_meta.h>
#include <ATen/ops/_linalg_slogdet_meta.h>
#include <ATen/ops/_linalg_solve_ex_meta.h>
#include <ATen/ops/linalg_cholesky_ex_meta.h>
#include <ATen/ops/linalg_cross_meta.h>
#include <ATen/ops/linalg_inv_ex_meta.h>
#include <ATen/ops/linalg_ldl_factor_ex_meta.h>
#include <ATen/ops/linalg_ldl_solve_meta.h>
#include <ATen/ops/linalg_lu_factor_ex_meta.h>
#include <ATen/ops/linalg_lu_meta.h>
#include <ATen/ops/linalg_lu_solve_meta.h>
#include <ATen/ops/linalg_qr_meta.h>
#include <ATen/ops/lu_unpack_meta.h>
#include <ATen/ops/renorm_meta.h>
#include <ATen/ops/triangular_solve_meta.h>

#include "ops/aten_metas.h"
#include "ops/aten_operator.h"

namespace rustdev {
namespace {

using at::Tensor;

constexpr uint64_t field = wide | dtype_set({at::kComplexFloat, at::kComplexDouble});

bool are_matrices(const Tensor& a, const Tensor& b) { return a.dim() >= 2 && b.dim() >= 2; }

// ---- triangles and reflections ----

struct SolveTriangular : at::impl::MetaBase {
  static bool takes(const Tensor& a, const Tensor& b, bool, bool left, bool) {
    return are_matrices(a, b) && a.scalar_type() == b.scalar_type() && a.size(-1) == a.size(-2) &&
           a.size(-1) == b.size(left ? -2 : -1);
  }

  void meta(const Tensor& a, const Tensor& b, bool, bool, bool) {
    const auto [right, triangle] = at::native::_linalg_broadcast_batch_dims(b, a, nullptr);
    // The kernel does not copy such a view, and solves the transposed equation.
    const bool by_row = triangle.is_conj() && triangle.transpose(-2, -1).is_contiguous();
    const at::DimVector strides = at::native::batched_matrix_contiguous_strides(right.sizes(), /*f_contig=*/!by_row);
    set_output_raw_strided(0, right.sizes(), strides, b.options());
  }
};

struct HouseholderProduct : Like<0, Layout::column_major, const Tensor&, const Tensor&> {
  static bool takes(const Tensor& input, const Tensor& tau) {
    return input.dim() >= 2 && tau.dim() == input.dim() - 1 && input.scalar_type() == tau.scalar_type() &&
           input.size(-2) >= input.size(-1) && input.size(-1) >= tau.size(-1) &&
           tau.sizes().slice(0, tau.dim() - 1) == input.sizes().slice(0, tau.dim() - 1);
  }
};

struct Ormqr : Like<2, Layout::column_major, const Tensor&, const Tensor&, const Tensor&, bool, bool> {
  static bool takes(const Tensor& input, const Tensor& tau, const Tensor& other, bool left, bool) {
    const auto batch = [](const Tensor& tensor, int64_t dims) { return tensor.sizes().slice(0, tensor.dim() - dims); };
    return are_matrices(input, other) && tau.dim() == input.dim() - 1 && other.dim() == input.dim() &&
           batch(input, 2) == batch(other, 2) && batch(input, 2) == batch(tau, 1) && tau.size(-1) <= input.size(-1) &&
           tau.size(-1) <= other.size(left ? -2 : -1) && input.size(-2) == other.size(left ? -2 : -1) &&
           input.scalar_type() == tau.scalar_type() && input.scalar_type() == other.scalar_type();
  }
};

struct CholeskySolve : Like<0, Layout::column_major, const Tensor&, const Tensor&, bool> {
  static bool takes(const Tensor& b, const Tensor& a, bool) {
    return are_matrices(a, b) && a.size(-1) == a.size(-2) && a.size(-1) == b.size(-2) && a.dim() == b.dim() &&
           a.sizes().slice(0, a.dim() - 2) == b.sizes().slice(0, a.dim() - 2) && a.scalar_type() == b.scalar_type();
  }
};

struct MatrixExponential : Like<0, Layout::contiguous, const Tensor&> {
  // Of one element it is the exponential, whose result has the strides of the operand.
  static bool takes(const Tensor& a) { return a.dim() >= 2 && a.size(-1) == a.size(-2) && a.size(-1) > 1; }
};

struct SumOfProducts : at::impl::MetaBase {
  static bool takes(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const at::Scalar&, const at::Scalar&) {
    return batch1.dim() == 3 && batch2.dim() == 3 && batch1.size(0) == batch2.size(0) && batch1.size(2) == batch2.size(1) &&
           at::is_expandable_to(self.sizes(), {batch1.size(1), batch2.size(2)}) && self.scalar_type() == batch1.scalar_type() &&
           self.scalar_type() == batch2.scalar_type();
  }

  void meta(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const at::Scalar&, const at::Scalar&) {
    set_output_raw_strided(0, {batch1.size(1), batch2.size(2)}, {}, self.options());
  }
};

// ---- distances ----

// Without elements some norms are refused.
struct Renorm : at::meta::structured_renorm {
  static bool takes(const Tensor&, const at::Scalar&, int64_t, const at::Scalar&) { return true; }
};

struct Distances : at::impl::MetaBase {
  static bool takes(const Tensor& x1, const Tensor& x2, double p, const std::optional<int64_t>& mode) {
    return are_matrices(x1, x2) && x1.size(-1) == x2.size(-1) && x1.scalar_type() == x2.scalar_type() && p >= 0 &&
           mode.value_or(0) >= 0 && mode.value_or(0) <= 2;
  }

  void meta(const Tensor& x1, const Tensor& x2, double, std::optional<int64_t>) {
    std::vector<int64_t> sizes = std::get<0>(at::native::_linalg_broadcast_batch_dims(x1, x2));
    sizes.back() = x2.size(-2);
    set_output_raw_strided(0, sizes, {}, x1.options());
  }
};

struct DistancesBackward : at::impl::MetaBase {
  static bool takes(const Tensor&, const Tensor& x1, const Tensor& x2, double, const Tensor&) { return are_matrices(x1, x2); }

  void meta(const Tensor&, const Tensor& x1, const Tensor& x2, double, const Tensor&) {
    set_output_raw_strided(0, std::get<0>(at::native::_linalg_broadcast_batch_dims(x1, x2)), {}, x1.options());
  }
};

struct PairDistances : at::impl::MetaBase {
  static bool takes(const Tensor& self, double p) { return self.dim() == 2 && self.is_contiguous() && p >= 0; }

  void meta(const Tensor& self, double) { set_output_raw_strided(0, {self.size(0) * (self.size(0) - 1) / 2}, {}, self.options()); }
};

struct PairDistancesBackward : Like<1, Layout::contiguous, const Tensor&, const Tensor&, double, const Tensor&> {};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  Tier aten(m, "aten");
  bind_aten<AtenOperator<at::meta::structured_linalg_inv_ex, 2>>(
      aten, {"linalg_inv_ex", "linalg_inv_ex.inverse", field, Batch::matrices});
  bind_aten<AtenOperator<at::meta::structured_linalg_cholesky_ex, 2>>(
      aten, {"linalg_cholesky_ex", "linalg_cholesky_ex.L", field, Batch::matrices});
  bind_aten<AtenOperator<at::meta::structured_linalg_lu_factor_ex, 3>>(
      aten, {"linalg_lu_factor_ex", "linalg_lu_factor_ex.out", field, Batch::matrices});
  bind_aten<AtenOperator<at::meta::structured_linalg_lu, 3>>(aten, {"linalg_lu", "linalg_lu.out", field, Batch::matrices});
  // For complex numbers it may set the conjugate bit of its result.
  bind_aten<AtenOperator<at::meta::structured_linalg_lu_solve>>(aten,
                                                                {"linalg_lu_solve", "linalg_lu_solve.out", wide, Batch::matrices});
  bind_aten<AtenOperator<at::meta::structured_linalg_qr, 2>>(aten, {"linalg_qr", "linalg_qr.out", field, Batch::matrices});
  bind_aten<AtenOperator<at::meta::structured_linalg_ldl_factor_ex, 3>>(
      aten, {"linalg_ldl_factor_ex", "linalg_ldl_factor_ex.out", field, Batch::matrices});
  bind_aten<AtenOperator<at::meta::structured__linalg_det, 3>>(aten, {"_linalg_det", "_linalg_det.result", field, Batch::matrices});
  bind_aten<AtenOperator<at::meta::structured__linalg_slogdet, 4>>(
      aten, {"_linalg_slogdet", "_linalg_slogdet.sign", field, Batch::matrices});
  bind_aten<AtenOperator<at::meta::structured__linalg_solve_ex, 4>>(
      aten, {"_linalg_solve_ex", "_linalg_solve_ex.result", field, Batch::matrices});
  bind_aten<AtenOperator<at::meta::structured_triangular_solve, 2>>(
      aten, {"triangular_solve", "triangular_solve.X", field, Batch::matrices});
  bind_aten<AtenOperator<at::meta::structured_lu_unpack, 3>>(aten, {"lu_unpack", "lu_unpack.out", field, Batch::matrices});
  bind_aten<AtenOperator<at::meta::structured_linalg_ldl_solve>>(
      aten, {"linalg_ldl_solve", "linalg_ldl_solve.out", field, Batch::matrices, Guarded::task});
  bind_aten<AtenOperator<SolveTriangular>>(aten,
                                           {"linalg_solve_triangular", "linalg_solve_triangular.out", field, Batch::matrices});
  bind_aten<AtenOperator<HouseholderProduct>>(
      aten, {"linalg_householder_product", "linalg_householder_product.out", field, Batch::matrices});
  bind_aten<AtenOperator<Ormqr>>(aten, {"ormqr", "ormqr.out", field, Batch::matrices});
  bind_aten<AtenOperator<CholeskySolve>>(aten, {"_cholesky_solve_helper", nullptr, field, Batch::matrices});
  bind_aten<AtenOperator<MatrixExponential>>(aten, {"linalg_matrix_exp", nullptr, field | floating, Batch::matrices});
  bind_aten<AtenOperator<at::meta::structured_linalg_cross>>(
      aten, {"linalg_cross", "linalg_cross.out", field | floating | integers, Batch::none});
  bind_aten<AtenOperator<Renorm>>(aten, {"renorm", "renorm.out", field | floating, Batch::none});
  bind_aten<AtenOperator<SumOfProducts>>(aten, {"addbmm", nullptr, field | floating | integers, Batch::none});
  bind_aten<AtenOperator<Distances>>(aten, {"_cdist_forward", nullptr, wide, Batch::matrices});
  bind_aten<AtenOperator<DistancesBackward>>(aten, {"_cdist_backward", nullptr, wide, Batch::none});
  bind_aten<AtenOperator<PairDistances>>(aten, {"_pdist_forward", nullptr, wide, Batch::none});
  bind_aten<AtenOperator<PairDistancesBackward>>(aten, {"_pdist_backward", nullptr, wide, Batch::none});
}

}  // namespace
}  // namespace rustdev
