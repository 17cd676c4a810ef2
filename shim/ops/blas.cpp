// Matrix products by PyTorch's libraries, on the calling thread only: BLAS functions, looked up in the process because not every
// build of PyTorch has MKL, and oneDNN through ATen's own product.
#include <ATen/ops/addmm.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <c10/core/ScalarType.h>

#include "ops/cpu_kernels.h"

namespace rustdev {
namespace {

template <class In, class Out>
using Gemm = void (*)(const char* transa, const char* transb, const int* m, const int* n, const int* k, const Out* alpha,
                      const In* a, const int* lda, const In* b, const int* ldb, const Out* beta, Out* c, const int* ldc);

// The BLAS function for a dtype, by its Fortran name; null if there is none.
struct Function {
  c10::ScalarType dtype;
  const char* name;
  void* function = symbol_of_torch(name);
};

const std::array<Function, 4>& functions() {
  static const std::array<Function, 4> found{{{c10::ScalarType::Float, "sgemm_"},
                                              {c10::ScalarType::Double, "dgemm_"},
                                              {c10::ScalarType::BFloat16, "gemm_bf16bf16f32_"},
                                              {c10::ScalarType::Half, "gemm_f16f16f32_"}}};
  return found;
}

template <class In, class Out>
void call(const rd_gemm& product) {
  const auto has_dtype = [&](const Function& one) { return static_cast<int32_t>(one.dtype) == product.dtype; };
  const auto function = reinterpret_cast<Gemm<In, Out>>(std::find_if(functions().begin(), functions().end(), has_dtype)->function);
  const char trans_a = product.a.transposed ? 'T' : 'N';
  const char trans_b = product.b.transposed ? 'T' : 'N';
  const auto alpha = static_cast<Out>(product.alpha);
  const auto beta = static_cast<Out>(product.beta);
  function(&trans_a, &trans_b, &product.m, &product.n, &product.k, &alpha, static_cast<const In*>(product.a.data),
           &product.a.leading, static_cast<const In*>(product.b.data), &product.b.leading, &beta,
           static_cast<Out*>(product.out.data), &product.out.leading);
}

// The transpose of a column-major matrix, as a row-major tensor.
at::Tensor transpose_of(const rd_columns& matrix, int64_t rows, int64_t cols, c10::ScalarType dtype) {
  const int64_t leading = matrix.leading;
  const std::array<int64_t, 2> strides{matrix.transposed ? 1 : leading, matrix.transposed ? leading : 1};
  return at::from_blob(matrix.data, {cols, rows}, strides, at::TensorOptions(dtype));
}

// The product of the transposes, by ATen; sums are rounded once.
void call_aten(const rd_gemm& product) {
  const auto dtype = static_cast<c10::ScalarType>(product.dtype);
  at::Tensor out = transpose_of(product.out, product.m, product.n, dtype);
  const at::Tensor left = transpose_of(product.b, product.k, product.n, dtype);
  const at::Tensor right = transpose_of(product.a, product.m, product.k, dtype);
  if (product.beta == 0 && product.alpha == 1) {
    at::mm_out(out, left, right);
  } else {
    at::addmm_out(out, out, left, right, product.beta, product.alpha);
  }
}

void make(const rd_gemm& product) {
  const SerialAten serial;
  const auto dtype = static_cast<c10::ScalarType>(product.dtype);
  if (c10::isReducedFloatingType(dtype) && product.out_dtype == product.dtype) {
    return call_aten(product);
  }
  dtype == c10::ScalarType::Float    ? call<float, float>(product)
  : dtype == c10::ScalarType::Double ? call<double, double>(product)
                                     : call<uint16_t, float>(product);
}

bool run(const rd_gemm* product) {
  try {
    make(*product);
    return true;
  } catch (const std::exception& error) {
    TORCH_WARN(rd_backend_name(), ": a matrix product failed: ", error.what());
    return false;
  }
}

__attribute__((constructor)) void register_blas() {
  uint64_t dtypes = 0;
  for (const Function& one : functions()) {
    dtypes |= uint64_t{one.function != nullptr} << static_cast<unsigned>(one.dtype);
  }
  rd_gemm_register(dtypes, &run);
}

}  // namespace
}  // namespace rustdev
