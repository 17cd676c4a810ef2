// Fourier transforms by PyTorch's CPU kernels, as tasks of the stream.
//
// Their results have the strides of those kernels. With MKL the memory of a result has the dimensions that are not transformed
// first, in the order of the operand's strides, and then those that are; without it, and without elements, it is contiguous.
#include <ATen/Context.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <numeric>

#include "ops/aten_operator.h"

namespace rustdev {
namespace {

constexpr uint64_t real = dtype_set({at::kFloat, at::kDouble});
constexpr uint64_t complex = dtype_set({at::kComplexFloat, at::kComplexDouble});

// Dimensions in the order of their strides, the greatest first.
at::DimVector by_stride(at::IntArrayRef strides, at::IntArrayRef dims) {
  at::DimVector sorted(dims);
  std::stable_sort(sorted.begin(), sorted.end(), [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  return sorted;
}

// The strides of a result of these sizes for an operand of those strides, whose last dimensions in memory are `transformed`.
at::DimVector result_strides(at::IntArrayRef strides, at::IntArrayRef sizes, at::IntArrayRef transformed) {
  at::DimVector order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  if (at::hasMKL() && c10::multiply_integers(sizes) != 0) {
    // The order of equal strides is that of the kernel, which partitions in the same way.
    const auto is_batch = [&](int64_t dim) { return std::find(transformed.begin(), transformed.end(), dim) == transformed.end(); };
    order.erase(std::partition(order.begin(), order.end(), is_batch), order.end());
    order = by_stride(strides, order);
    order.append(transformed.begin(), transformed.end());
  }
  at::DimVector result(sizes.size());
  int64_t stride = 1;
  for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
    result[*dim] = stride;
    stride *= std::max<int64_t>(sizes[*dim], 1);
  }
  return result;
}

struct ComplexToComplex : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::IntArrayRef dim, int64_t, bool) {
    const at::DimVector strides = result_strides(self.strides(), self.sizes(), by_stride(self.strides(), dim));
    set_output_raw_strided(0, self.sizes(), strides, self.options());
  }
};

struct RealToComplex : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::IntArrayRef dim, int64_t, bool onesided) {
    TORCH_CHECK(!dim.empty(), "_fft_r2c: expected a dimension");
    at::DimVector sizes(self.sizes());
    if (onesided) {
      sizes[dim.back()] = sizes[dim.back()] / 2 + 1;
    }
    at::DimVector transformed = by_stride(self.strides(), dim.slice(0, dim.size() - 1));
    transformed.push_back(dim.back());
    const auto options = self.options().dtype(c10::toComplexType(self.scalar_type()));
    set_output_raw_strided(0, sizes, result_strides(self.strides(), sizes, transformed), options);
  }
};

// The last dimension is transformed behind the others.
struct ComplexToReal : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::IntArrayRef dim, int64_t, int64_t last_dim_size) {
    TORCH_CHECK(!dim.empty(), "_fft_c2r: expected a dimension");
    at::DimVector sizes(self.sizes()), strides(self.strides());
    if (dim.size() > 1) {
      strides = result_strides(strides, sizes, by_stride(strides, dim.slice(0, dim.size() - 1)));
    }
    sizes[dim.back()] = last_dim_size;
    const auto options = self.options().dtype(c10::toRealValueType(self.scalar_type()));
    set_output_raw_strided(0, sizes, result_strides(strides, sizes, dim.slice(dim.size() - 1)), options);
  }
};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  Tier aten(m, "aten");
  bind_aten<AtenOperator<ComplexToComplex>>(aten, {"_fft_c2c", "_fft_c2c.out", complex, Batch::none});
  bind_aten<AtenOperator<RealToComplex>>(aten, {"_fft_r2c", "_fft_r2c.out", real, Batch::none});
  bind_aten<AtenOperator<ComplexToReal>>(aten, {"_fft_c2r", "_fft_c2r.out", complex, Batch::none});
}

}  // namespace
}  // namespace rustdev
