// PyTorch's BLAS for the matrix products of the device: its functions are looked up in the process, as not every build of PyTorch
// has MKL, and run on the calling thread alone.
#include <c10/core/ScalarType.h>

#include "ops/aten_task.h"

namespace rustdev {
namespace {

template <class In, class Out>
using Gemm = void (*)(const char* transa, const char* transb, const int* m, const int* n, const int* k, const Out* alpha,
                      const In* a, const int* lda, const In* b, const int* ldb, const Out* beta, Out* c, const int* ldc);

// MKL's functions under the names of Fortran; null where there is none.
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

void run(const rd_gemm* product) {
  const SerialAten serial;
  switch (static_cast<c10::ScalarType>(product->dtype)) {
    case c10::ScalarType::Float:
      return call(blas().of_float, *product);
    case c10::ScalarType::Double:
      return call(blas().of_double, *product);
    case c10::ScalarType::BFloat16:
      return call(blas().of_bfloat16, *product);
    default:
      return call(blas().of_half, *product);
  }
}

uint64_t bit(c10::ScalarType dtype, bool is_there) { return is_there ? uint64_t{1} << static_cast<int>(dtype) : 0; }

[[maybe_unused]] const bool registered = [] {
  const Blas& found = blas();
  rd_gemm_register(
      bit(c10::ScalarType::Float, found.of_float != nullptr) | bit(c10::ScalarType::Double, found.of_double != nullptr) |
          bit(c10::ScalarType::BFloat16, found.of_bfloat16 != nullptr) | bit(c10::ScalarType::Half, found.of_half != nullptr),
      &run);
  return true;
}();

}  // namespace
}  // namespace rustdev
