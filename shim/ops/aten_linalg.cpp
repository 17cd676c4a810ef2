// Decompositions and solutions of matrices by PyTorch's CPU kernels, as tasks of the stream.
#include <ATen/ops/_linalg_det_meta.h>
#include <ATen/ops/_linalg_slogdet_meta.h>
#include <ATen/ops/_linalg_solve_ex_meta.h>
#include <ATen/ops/linalg_cholesky_ex_meta.h>
#include <ATen/ops/linalg_inv_ex_meta.h>
#include <ATen/ops/linalg_ldl_factor_ex_meta.h>
#include <ATen/ops/linalg_lu_factor_ex_meta.h>
#include <ATen/ops/linalg_lu_meta.h>
#include <ATen/ops/linalg_lu_solve_meta.h>
#include <ATen/ops/linalg_qr_meta.h>
#include <ATen/ops/triangular_solve_meta.h>

#include "ops/aten_operator.h"

namespace rustdev {
namespace {

constexpr uint64_t real = dtype_set({at::kFloat, at::kDouble});
constexpr uint64_t field = dtype_set({at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble});

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
                                                                {"linalg_lu_solve", "linalg_lu_solve.out", real, Batch::matrices});
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
}

}  // namespace
}  // namespace rustdev
