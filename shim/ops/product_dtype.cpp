// Matrix products whose result has a wider dtype than their operands (mm, bmm, addmm, baddbmm with out_dtype), composed of the
// products of that dtype: the operands are widened first, so that nothing is rounded before the sum. PyTorch has them for CUDA
// only; the same arguments are accepted here.
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include "ops/tier.h"

namespace rustdev {
namespace {

using at::ScalarType;
using at::Tensor;

void check_dtypes(const char* name, const Tensor& a, const Tensor& b, ScalarType out_dtype) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), name, ": expected operands of one dtype, got ", a.scalar_type(), " and ",
              b.scalar_type());
  const bool low = a.scalar_type() == ScalarType::Half || a.scalar_type() == ScalarType::BFloat16;
  TORCH_CHECK(out_dtype == a.scalar_type() || (out_dtype == ScalarType::Float && low), name,
              ": out_dtype must be the dtype of the operands, or float32 for float16 and bfloat16 operands, not ", out_dtype);
}

void check_out(const char* name, const Tensor& out, ScalarType out_dtype) {
  TORCH_CHECK(out.scalar_type() == out_dtype, name, ": out has dtype ", out.scalar_type(), ", but out_dtype is ", out_dtype);
}

Tensor mm(const Tensor& self, const Tensor& mat2, ScalarType out_dtype) {
  check_dtypes("mm", self, mat2, out_dtype);
  return at::mm(self.to(out_dtype), mat2.to(out_dtype));
}

Tensor& mm_out(const Tensor& self, const Tensor& mat2, ScalarType out_dtype, Tensor& out) {
  check_dtypes("mm", self, mat2, out_dtype);
  check_out("mm", out, out_dtype);
  return at::mm_out(out, self.to(out_dtype), mat2.to(out_dtype));
}

Tensor bmm(const Tensor& self, const Tensor& mat2, ScalarType out_dtype) {
  check_dtypes("bmm", self, mat2, out_dtype);
  return at::bmm(self.to(out_dtype), mat2.to(out_dtype));
}

Tensor& bmm_out(const Tensor& self, const Tensor& mat2, ScalarType out_dtype, Tensor& out) {
  check_dtypes("bmm", self, mat2, out_dtype);
  check_out("bmm", out, out_dtype);
  return at::bmm_out(out, self.to(out_dtype), mat2.to(out_dtype));
}

Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, ScalarType out_dtype, const at::Scalar& beta,
             const at::Scalar& alpha) {
  check_dtypes("addmm", mat1, mat2, out_dtype);
  return at::addmm(self.to(out_dtype), mat1.to(out_dtype), mat2.to(out_dtype), beta, alpha);
}

Tensor& addmm_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2, ScalarType out_dtype, const at::Scalar& beta,
                  const at::Scalar& alpha, Tensor& out) {
  check_dtypes("addmm", mat1, mat2, out_dtype);
  check_out("addmm", out, out_dtype);
  return at::addmm_out(out, self.to(out_dtype), mat1.to(out_dtype), mat2.to(out_dtype), beta, alpha);
}

Tensor baddbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, ScalarType out_dtype, const at::Scalar& beta,
               const at::Scalar& alpha) {
  check_dtypes("baddbmm", batch1, batch2, out_dtype);
  return at::baddbmm(self.to(out_dtype), batch1.to(out_dtype), batch2.to(out_dtype), beta, alpha);
}

Tensor& baddbmm_out(const Tensor& self, const Tensor& batch1, const Tensor& batch2, ScalarType out_dtype, const at::Scalar& beta,
                    const at::Scalar& alpha, Tensor& out) {
  check_dtypes("baddbmm", batch1, batch2, out_dtype);
  check_out("baddbmm", out, out_dtype);
  return at::baddbmm_out(out, self.to(out_dtype), batch1.to(out_dtype), batch2.to(out_dtype), beta, alpha);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  Tier aten(m, "composite");
  aten.impl("mm.dtype", TORCH_FN(mm));
  aten.impl("mm.dtype_out", TORCH_FN(mm_out));
  aten.impl("bmm.dtype", TORCH_FN(bmm));
  aten.impl("bmm.dtype_out", TORCH_FN(bmm_out));
  aten.impl("addmm.dtype", TORCH_FN(addmm));
  aten.impl("addmm.dtype_out", TORCH_FN(addmm_out));
  aten.impl("baddbmm.dtype", TORCH_FN(baddbmm));
  aten.impl("baddbmm.dtype_out", TORCH_FN(baddbmm_out));
}

}  // namespace rustdev
