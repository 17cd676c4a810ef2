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
      aten, {{"linalg_inv_ex", nullptr, "linalg_inv_ex.inverse", nullptr}, field, Batch::matrices});
  bind_aten<AtenOperator<at::meta::structured_linalg_cholesky_ex, 2>>(
      aten, {{"linalg_cholesky_ex", nullptr, "linalg_cholesky_ex.L", nullptr}, field, Batch::matrices});
  bind_aten<AtenOperator<at::meta::structured_linalg_lu_factor_ex, 3>>(
      aten, {{"linalg_lu_factor_ex", nullptr, "linalg_lu_factor_ex.out", nullptr}, field, Batch::matrices});
  bind_aten<AtenOperator<at::meta::structured_linalg_lu, 3>>(
      aten, {{"linalg_lu", nullptr, "linalg_lu.out", nullptr}, field, Batch::matrices});
  // For complex numbers it may set the conjugate bit of its result.
  bind_aten<AtenOperator<at::meta::structured_linalg_lu_solve>>(
      aten, {{"linalg_lu_solve", nullptr, "linalg_lu_solve.out", nullptr}, real, Batch::matrices});
  bind_aten<AtenOperator<at::meta::structured_linalg_qr, 2>>(
      aten, {{"linalg_qr", nullptr, "linalg_qr.out", nullptr}, field, Batch::matrices});
  bind_aten<AtenOperator<at::meta::structured_linalg_ldl_factor_ex, 3>>(
      aten, {{"linalg_ldl_factor_ex", nullptr, "linalg_ldl_factor_ex.out", nullptr}, field, Batch::matrices});
  bind_aten<AtenOperator<at::meta::structured__linalg_det, 3>>(
      aten, {{"_linalg_det", nullptr, "_linalg_det.result", nullptr}, field, Batch::matrices});
  bind_aten<AtenOperator<at::meta::structured__linalg_slogdet, 4>>(
      aten, {{"_linalg_slogdet", nullptr, "_linalg_slogdet.sign", nullptr}, field, Batch::matrices});
  bind_aten<AtenOperator<at::meta::structured__linalg_solve_ex, 4>>(
      aten, {{"_linalg_solve_ex", nullptr, "_linalg_solve_ex.result", nullptr}, field, Batch::matrices});
  bind_aten<AtenOperator<at::meta::structured_triangular_solve, 2>>(
      aten, {{"triangular_solve", nullptr, "triangular_solve.X", nullptr}, field, Batch::matrices});
}

}  // namespace
}  // namespace rustdev
