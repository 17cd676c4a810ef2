// Matrix products by PyTorch's libraries, on the calling thread only: BLAS functions, looked up in the process because not every
// build of PyTorch has MKL, and oneDNN through ATen's own product.
#include <ATen/ops/addmm.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <c10/core/ScalarType.h>

#include <array>

#include "ops/aten_task.h"

namespace rustdev {
namespace {

template <class In, class Out>
using Gemm = void (*)(const char* transa, const char* transb, const int* m, const int* n, const int* k, const Out* alpha,
                      const In* a, const int* lda, const In* b, const int* ldb, const Out* beta, Out* c, const int* ldc);

// BLAS functions by their Fortran names; null if there is none.
struct Blas {
  Blas() {
    find_symbol("sgemm_", of_float);
    find_symbol("dgemm_", of_double);
    find_symbol("gemm_bf16bf16f32_", of_bfloat16);
    find_symbol("gemm_f16f16f32_", of_half);
  }

  Gemm<float, float> of_float = nullptr;
  Gemm<double, double> of_double = nullptr;
  Gemm<uint16_t, float> of_bfloat16 = nullptr;
  Gemm<uint16_t, float> of_half = nullptr;
};

const Blas& blas() {
  static const Blas instance;
  return instance;
}

template <class In, class Out>
void call(Gemm<In, Out> function, const rd_gemm& product) {
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
  switch (dtype) {
    case c10::ScalarType::Float:
      return call(blas().of_float, product);
    case c10::ScalarType::Double:
      return call(blas().of_double, product);
    case c10::ScalarType::BFloat16:
      return call(blas().of_bfloat16, product);
    default:
      return call(blas().of_half, product);
  }
}

bool run(const rd_gemm* product) {
  try {
    make(*product);
    return true;
  } catch (const std::exception& error) {
    TORCH_WARN("rustdev: a matrix product failed: ", error.what());
    return false;
  }
}

uint64_t bit(c10::ScalarType dtype, bool is_there) { return is_there ? uint64_t{1} << static_cast<unsigned>(dtype) : 0; }

[[maybe_unused]] const bool registered = []() noexcept {
  const Blas& found = blas();
  rd_gemm_register(
      bit(c10::ScalarType::Float, found.of_float != nullptr) | bit(c10::ScalarType::Double, found.of_double != nullptr) |
          bit(c10::ScalarType::BFloat16, found.of_bfloat16 != nullptr) | bit(c10::ScalarType::Half, found.of_half != nullptr),
      &run);
  return true;
}();

}  // namespace
}  // namespace rustdev
