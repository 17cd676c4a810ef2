// Guards of poolings' backwards, resampling and convolutions: see fallback_guard.h.
#include <ATen/ops/nan_to_num.h>
#include <c10/util/irange.h>

#include <limits>

#include "ops/fallback_guard.h"

namespace rustdev {
namespace {

// The backward of a pooling: as many planes of gradients as of the input.
template <size_t spatial>
void check_planes(const Arguments& args) {
  const at::Tensor grad = args.tensor("grad_output");
  const at::Tensor self = args.tensor("self");
  const auto dim = static_cast<size_t>(self.dim());
  TORCH_CHECK(dim == spatial + 1 || dim == spatial + 2, args.operator_name(), ": expected self to have ", spatial + 1, " or ",
              spatial + 2, " dimensions, but got ", dim);
  check_dim(args, "grad_output", self.dim());
  const size_t leading = dim - spatial;
  TORCH_CHECK(grad.sizes().slice(0, leading) == self.sizes().slice(0, leading), args.operator_name(),
              ": expected grad_output and self to have the same batch and channels, but got ", grad.sizes(), " and ", self.sizes());
  TORCH_CHECK(self.numel() != 0 || grad.numel() == 0, args.operator_name(), ": self is empty where grad_output is not");
}

// The same where indices say which element of its plane a gradient goes to.
template <size_t spatial>
void check_indexed_planes(const Arguments& args) {
  check_planes<spatial>(args);
  check_sizes(args, "indices", args.tensor("grad_output").sizes());
  args.make_contiguous("indices");
  int64_t plane = 1;
  for (const int64_t size : args.tensor("self").sizes().slice(args.tensor("self").dim() - spatial)) {
    plane *= size;
  }
  check_range(args, "indices", args.tensor("indices"), 0, plane);
}

template <size_t spatial>
void check_fractional(const Arguments& args) {
  check_length(args, "output_size", spatial);
  check_indexed_planes<spatial>(args);
}

// The size of the input in one of the last dimensions, which is a tensor forward and a list backward.
int64_t input_size(const Arguments& args, size_t spatial, size_t dim) {
  const at::Tensor self = args.tensor("self");
  return self.defined() ? self.size(self.dim() - static_cast<int64_t>(spatial - dim)) : args.integers("input_size")[2 + dim];
}

std::optional<double> scale_of(const Arguments& args, size_t spatial, size_t dim) {
  constexpr const char* names[] = {"scales_d", "scales_h", "scales_w"};
  return args.number(spatial == 1 ? "scales" : names[3 - spatial + dim]);
}

// Positions in the input are computed in doubles or floats and go through an int.
template <size_t spatial>
void check_resampling(const Arguments& args) {
  constexpr double limit = 2147483648.0;
  check_length(args, "output_size", spatial);
  if (args.tensor("self").defined()) {
    check_dim(args, "self", spatial + 2);
  } else {
    check_length(args, "input_size", spatial + 2);
  }
  const std::vector<int64_t> output = args.integers("output_size");
  for (const auto dim : c10::irange(spatial)) {
    const std::optional<double> scale = scale_of(args, spatial, dim);
    TORCH_CHECK(!scale || !(*scale > 0) || static_cast<double>(output[dim]) / *scale < limit, args.operator_name(), ": a scale of ",
                scale.value_or(0), " is too small for an output of size ", output[dim]);
  }
}

// With antialiasing, every element of the output has its centre within the input.
void check_antialiased(const Arguments& args) {
  check_resampling<2>(args);
  if (args.flag("align_corners")) {
    return;
  }
  const std::vector<int64_t> output = args.integers("output_size");
  for (const auto dim : c10::irange<size_t>(2)) {
    const std::optional<double> scale = scale_of(args, 2, dim);
    const auto size = static_cast<double>(input_size(args, 2, dim));
    TORCH_CHECK(!scale || !(*scale > 0) || static_cast<double>(output[dim]) <= size * *scale * (1 + 1e-6), args.operator_name(),
                ": an output of size ", output[dim], " is too large for an input of size ", size, " and a scale of ",
                scale.value_or(0));
  }
}

// The kernel reads and writes anywhere for positions that are NaN: they are kept to the border, as the forward kernel does.
void place_on_border(const Arguments& args) {
  constexpr int64_t border = 1, reflection = 2;
  const at::Tensor grid = args.tensor("grid");
  const std::optional<int64_t> padding = args.integer("padding_mode");
  if (grid.defined() && padding == border) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    args.replace("grid", at::nan_to_num(grid, -infinity, infinity, -infinity));
  } else if (grid.defined() && padding == reflection) {
    args.replace("grid", at::nan_to_num(grid, -1.0, -1.0, -1.0));
  }
}

void check_window(const Arguments& args, size_t spatial) {
  for (const char* const name : {"kernel_size", "stride", "padding"}) {
    check_length(args, name, spatial);
    check_small(args, name);
  }
  check_small(args, "output_padding");
  check_small(args, "dilation");
}

// A convolution whose weight is looped over as the list of the kernel's sizes says.
template <size_t spatial>
void check_convolution(const Arguments& args) {
  check_window(args, spatial);
  const at::Tensor weight = args.tensor("weight");
  if (weight.defined() && weight.dim() == static_cast<int64_t>(spatial) + 2) {
    TORCH_CHECK(weight.sizes().slice(2) == at::IntArrayRef(args.integers("kernel_size")), args.operator_name(),
                ": expected weight to end in the sizes of the kernel, but got ", weight.sizes());
  }
}

void check_convolution_backward(const Arguments& args) {
  check_convolution<2>(args);
  const at::Tensor self = args.tensor("self");
  const at::Tensor weight = args.tensor("weight");
  check_dim(args, "self", 4);
  check_dim(args, "grad_output", 4);
  TORCH_CHECK(args.tensor("grad_output").size(0) == self.size(0), args.operator_name(),
              ": expected grad_output and self to have the same batch, but got ", args.tensor("grad_output").sizes(), " and ",
              self.sizes());
  const std::vector<int64_t> kernel = args.integers("kernel_size");
  TORCH_CHECK(weight.dim() >= 2 && weight.numel() == weight.size(0) * self.size(1) * kernel[0] * kernel[1], args.operator_name(),
              ": weight of size ", weight.sizes(), " does not fit self of size ", self.sizes());
}

}  // namespace

void add_pool_guards(Guards& guards) {
  guards["aten::_adaptive_avg_pool2d_backward"] = &check_planes<2>;
  guards["aten::_adaptive_avg_pool3d_backward"] = &check_planes<3>;
  guards["aten::adaptive_avg_pool3d_backward"] = &check_planes<3>;
  guards["aten::avg_pool2d_backward"] = &check_planes<2>;
  guards["aten::avg_pool3d_backward"] = &check_planes<3>;
  guards["aten::adaptive_max_pool2d_backward"] = &check_indexed_planes<2>;
  guards["aten::adaptive_max_pool3d_backward"] = &check_indexed_planes<3>;
  guards["aten::max_pool2d_with_indices_backward"] = &check_indexed_planes<2>;
  guards["aten::max_pool3d_with_indices_backward"] = &check_indexed_planes<3>;
  guards["aten::fractional_max_pool2d_backward"] = &check_fractional<2>;
  guards["aten::fractional_max_pool3d_backward"] = &check_fractional<3>;
  for (const char* const suffix : {"", "_backward"}) {
    const auto name = [&](const char* stem) { return std::string("aten::") + stem + suffix; };
    for (const char* const stem : {"upsample_nearest1d", "_upsample_nearest_exact1d", "upsample_linear1d"}) {
      guards[name(stem)] = &check_resampling<1>;
    }
    for (const char* const stem :
         {"upsample_nearest2d", "_upsample_nearest_exact2d", "upsample_bilinear2d", "upsample_bicubic2d"}) {
      guards[name(stem)] = &check_resampling<2>;
    }
    for (const char* const stem : {"upsample_nearest3d", "_upsample_nearest_exact3d", "upsample_trilinear3d"}) {
      guards[name(stem)] = &check_resampling<3>;
    }
    for (const char* const stem : {"_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "_upsample_lanczos2d_aa"}) {
      guards[name(stem)] = &check_antialiased;
    }
  }
  guards["aten::grid_sampler_2d_backward"] = &place_on_border;
  guards["aten::_slow_conv2d_forward"] = &check_convolution<2>;
  guards["aten::_slow_conv2d_backward"] = &check_convolution_backward;
  guards["aten::slow_conv3d_forward"] = &check_convolution<3>;
  guards["aten::slow_conv_transpose2d"] = &check_convolution<2>;
  guards["aten::slow_conv_transpose3d"] = &check_convolution<3>;
  guards["aten::slow_conv_dilated2d"] = &check_convolution<2>;
  guards["aten::slow_conv_dilated3d"] = &check_convolution<3>;
}

}  // namespace rustdev
