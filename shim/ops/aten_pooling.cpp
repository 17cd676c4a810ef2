// Pooling by PyTorch's CPU kernels, as tasks of the stream.
#include <ATen/Context.h>
#include <ATen/native/Pool.h>
#include <ATen/ops/adaptive_max_pool2d_backward_meta.h>
#include <ATen/ops/adaptive_max_pool2d_meta.h>
#include <ATen/ops/adaptive_max_pool3d_backward_meta.h>
#include <ATen/ops/adaptive_max_pool3d_meta.h>
#include <ATen/ops/avg_pool2d_backward_meta.h>
#include <ATen/ops/avg_pool2d_meta.h>
#include <ATen/ops/avg_pool3d_backward_meta.h>
#include <ATen/ops/avg_pool3d_meta.h>
#include <ATen/ops/fractional_max_pool2d_backward_meta.h>
#include <ATen/ops/fractional_max_pool2d_meta.h>
#include <ATen/ops/fractional_max_pool3d_meta.h>

#include <algorithm>

#include "ops/aten_metas.h"
#include "ops/aten_operator.h"

namespace rustdev {
namespace {

using at::IntArrayRef;
using at::Tensor;

// Images with or without a batch.
template <int64_t spatial>
bool is_images(const Tensor& tensor) {
  return tensor.dim() == spatial + 1 || tensor.dim() == spatial + 2;
}

// The sizes of a result for a whole batch of images, or for one.
template <int64_t spatial>
at::DimVector with_spatial(const Tensor& self, IntArrayRef spatial_sizes) {
  at::DimVector sizes(self.sizes());
  std::copy(spatial_sizes.begin(), spatial_sizes.end(), sizes.end() - spatial);
  return sizes;
}

bool is_positive(IntArrayRef sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size > 0; });
}

// ---- adaptive average ----

template <int64_t spatial>
struct AdaptiveAverage : at::impl::MetaBase {
  static bool takes(const Tensor& self, IntArrayRef output_size) {
    return is_images<spatial>(self) && output_size.size() == spatial && is_positive(output_size);
  }

  void meta(const Tensor& self, IntArrayRef output_size) {
    const auto format = spatial == 2 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous;
    set_output_raw_strided(0, with_spatial<spatial>(self, output_size), {}, self.options().memory_format(format));
  }
};

template <int64_t spatial>
struct AdaptiveAverageBackward : Like<1, spatial == 2 ? Layout::suggested : Layout::contiguous, const Tensor&, const Tensor&> {
  static bool takes(const Tensor& grad_output, const Tensor& self) {
    return is_images<spatial>(self) && grad_output.scalar_type() == self.scalar_type();
  }
};

// ---- maximum ----

// A number for each dimension, or one for all.
int64_t number_of(IntArrayRef list, size_t dim) { return list.size() == 1 ? list[0] : list[dim]; }

// Whether these are volumes, channels last only with a batch.
bool has_format(const Tensor& self) {
  return is_images<3>(self) && (self.dim() == 5 || self.suggest_memory_format() == at::MemoryFormat::Contiguous);
}

struct MaxPool3d : at::impl::MetaBase {
  static bool takes(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                    bool ceil_mode) {
    const auto has_numbers = [](IntArrayRef list) { return list.size() == 1 || list.size() == 3; };
    return has_format(self) && has_numbers(kernel_size) && (stride.empty() || has_numbers(stride)) && has_numbers(padding) &&
           has_numbers(dilation) && is_positive(kernel_size) && is_positive(stride) && is_positive(dilation) &&
           is_padding(padding, kernel_size) && is_positive(sizes(self, kernel_size, stride, padding, dilation, ceil_mode));
  }

  void meta(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
            bool ceil_mode) {
    const auto options = self.options().memory_format(self.suggest_memory_format());
    const at::DimVector result = sizes(self, kernel_size, stride, padding, dilation, ceil_mode);
    set_output_raw_strided(0, result, {}, options);
    set_output_raw_strided(1, result, {}, options.dtype(at::kLong));
  }

 private:
  static bool is_padding(IntArrayRef padding, IntArrayRef kernel_size) {
    bool fits = true;
    for (size_t dim = 0; dim < 3; ++dim) {
      fits = fits && number_of(padding, dim) >= 0 && number_of(padding, dim) <= number_of(kernel_size, dim) / 2;
    }
    return fits;
  }

  static at::DimVector sizes(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding,
                             IntArrayRef dilation, bool ceil_mode) {
    at::DimVector result(self.sizes());
    const size_t leading = result.size() - 3;
    for (size_t dim = 0; dim < 3; ++dim) {
      const int64_t step = number_of(stride.empty() ? kernel_size : stride, dim);
      result[leading + dim] =
          at::native::pooling_output_shape<int64_t>(self.size(static_cast<int64_t>(leading + dim)), number_of(kernel_size, dim),
                                                    number_of(padding, dim), step, number_of(dilation, dim), ceil_mode);
    }
    return result;
  }
};

struct MaxPool3dBackward : Like<1, Layout::suggested, const Tensor&, const Tensor&, IntArrayRef, IntArrayRef, IntArrayRef,
                                IntArrayRef, bool, const Tensor&> {
  static bool takes(const Tensor&, const Tensor& self, IntArrayRef, IntArrayRef, IntArrayRef, IntArrayRef, bool, const Tensor&) {
    return has_format(self);
  }
};

struct FractionalMaxPool3dBackward
    : Like<1, Layout::contiguous, const Tensor&, const Tensor&, IntArrayRef, IntArrayRef, const Tensor&> {};

// ---- unpooling ----

// The kernel refuses to be deterministic; so do calls of the fallback.
template <int64_t spatial>
struct MaxUnpool : at::impl::MetaBase {
 protected:
  static bool fits(const Tensor& self, const Tensor& indices, IntArrayRef output_size) {
    return is_images<spatial>(self) && indices.scalar_type() == at::kLong && indices.sizes() == self.sizes() &&
           output_size.size() == spatial && is_positive(output_size) && !at::globalContext().deterministicAlgorithms();
  }

  void result(const Tensor& self, IntArrayRef output_size) {
    const auto format = spatial == 2 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous;
    set_output_raw_strided(0, with_spatial<spatial>(self, output_size), {}, self.options().memory_format(format));
  }
};

struct MaxUnpool2d : MaxUnpool<2> {
  static bool takes(const Tensor& self, const Tensor& indices, IntArrayRef output_size) { return fits(self, indices, output_size); }
  void meta(const Tensor& self, const Tensor&, IntArrayRef output_size) { result(self, output_size); }
};

struct MaxUnpool3d : MaxUnpool<3> {
  static bool takes(const Tensor& self, const Tensor& indices, IntArrayRef output_size, IntArrayRef stride, IntArrayRef padding) {
    return fits(self, indices, output_size) && stride.size() == 3 && is_positive(stride) && padding.size() == 3;
  }
  void meta(const Tensor& self, const Tensor&, IntArrayRef output_size, IntArrayRef, IntArrayRef) { result(self, output_size); }
};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  Tier aten(m, "aten");
  bind_aten<AtenOperator<at::meta::structured_avg_pool2d>>(aten,
                                                           {"avg_pool2d", "avg_pool2d.out", floating | dtype_set({at::kLong})});
  bind_aten<AtenOperator<at::meta::structured_avg_pool2d_backward>>(
      aten, {"avg_pool2d_backward", "avg_pool2d_backward.grad_input", floating});
  bind_aten<AtenOperator<at::meta::structured_avg_pool3d>>(
      aten, {"avg_pool3d", "avg_pool3d.out", wide | rounded | dtype_set({at::kLong})});
  bind_aten<AtenOperator<at::meta::structured_avg_pool3d_backward>>(
      aten, {"avg_pool3d_backward", "avg_pool3d_backward.grad_input", wide | rounded});
  bind_aten<AtenOperator<AdaptiveAverage<2>>>(aten, {"_adaptive_avg_pool2d", "adaptive_avg_pool2d.out", floating});
  bind_aten<AtenOperator<AdaptiveAverage<3>>>(aten, {"_adaptive_avg_pool3d", "adaptive_avg_pool3d.out", floating});
  bind_aten<AtenOperator<AdaptiveAverageBackward<2>>>(aten, {"_adaptive_avg_pool2d_backward", nullptr, floating});
  bind_aten<AtenOperator<AdaptiveAverageBackward<3>>>(
      aten, {"_adaptive_avg_pool3d_backward", "adaptive_avg_pool3d_backward.grad_input", floating});
  bind_aten<AtenOperator<at::meta::structured_adaptive_max_pool2d, 2>>(
      aten, {"adaptive_max_pool2d", "adaptive_max_pool2d.out", floating});
  bind_aten<AtenOperator<at::meta::structured_adaptive_max_pool2d_backward>>(
      aten, {"adaptive_max_pool2d_backward", "adaptive_max_pool2d_backward.grad_input", floating, Batch::images, Guarded::task});
  bind_aten<AtenOperator<at::meta::structured_adaptive_max_pool3d, 2>>(
      aten, {"adaptive_max_pool3d", "adaptive_max_pool3d.out", floating});
  bind_aten<AtenOperator<at::meta::structured_adaptive_max_pool3d_backward>>(
      aten, {"adaptive_max_pool3d_backward", "adaptive_max_pool3d_backward.grad_input", floating, Batch::images, Guarded::task});
  bind_aten<AtenOperator<at::meta::structured_fractional_max_pool2d, 2>>(
      aten, {"fractional_max_pool2d", "fractional_max_pool2d.output", floating});
  bind_aten<AtenOperator<at::meta::structured_fractional_max_pool2d_backward>>(
      aten,
      {"fractional_max_pool2d_backward", "fractional_max_pool2d_backward.grad_input", floating, Batch::images, Guarded::task});
  bind_aten<AtenOperator<at::meta::structured_fractional_max_pool3d, 2>>(
      aten, {"fractional_max_pool3d", "fractional_max_pool3d.output", floating});
  bind_aten<AtenOperator<FractionalMaxPool3dBackward>>(
      aten,
      {"fractional_max_pool3d_backward", "fractional_max_pool3d_backward.grad_input", floating, Batch::images, Guarded::task});
  bind_aten<AtenOperator<MaxPool3d, 2>>(aten, {"max_pool3d_with_indices", "max_pool3d_with_indices.out", floating | integers});
  bind_aten<AtenOperator<MaxPool3dBackward>>(
      aten,
      {"max_pool3d_with_indices_backward", "max_pool3d_with_indices_backward.grad_input", floating, Batch::images, Guarded::task});
  bind_aten<AtenOperator<MaxUnpool2d>>(aten, {"max_unpool2d", "max_unpool2d.out", floating});
  bind_aten<AtenOperator<MaxUnpool3d>>(aten, {"max_unpool3d", "max_unpool3d.out", floating});
}

}  // namespace
}  // namespace rustdev
