// Reflection and replication padding, sliding windows (im2col, col2im, unfold), and their gradients.
#include <ATen/div_rtn.h>
#include <ATen/native/im2col_shape_check.h>
#include <ATen/ops/reflection_pad1d_backward_meta.h>
#include <ATen/ops/reflection_pad1d_meta.h>
#include <ATen/ops/reflection_pad3d_backward_meta.h>
#include <ATen/ops/reflection_pad3d_meta.h>
#include <ATen/ops/replication_pad1d_backward_meta.h>
#include <ATen/ops/replication_pad1d_meta.h>
#include <ATen/ops/replication_pad2d_meta.h>
#include <ATen/ops/replication_pad3d_meta.h>

#include "ops/factory.h"
#include "ops/movement.h"

namespace rustdev {
namespace {

// reflection_pad2d has no meta of its own: that of replication, and no more padding than there is to reflect.
struct ReflectionPad2d : public at::meta::structured_replication_pad2d {
  // NOLINTNEXTLINE(bugprone-derived-method-shadowing-base-method): the template calls this one by its type
  void meta(const at::Tensor& self, at::ArrayRef<int64_t> padding) {
    at::meta::structured_replication_pad2d::meta(self, padding);
    for (int64_t pair = 0; pair < 2; ++pair) {
      const int64_t size = self.size(self.dim() - 1 - pair);
      TORCH_CHECK(padding[2 * pair] < size && padding[2 * pair + 1] < size,
                  "Padding size should be less than the corresponding input dimension, but got: padding (", padding[2 * pair], ", ",
                  padding[2 * pair + 1], ") at dimension ", self.dim() - 1 - pair, " of input ", self.sizes());
    }
  }
};

// That of reflection_pad1d_backward reads both sides' padding without a look at how many there are.
struct ReflectionPad1dBackward : public at::meta::structured_reflection_pad1d_backward {
  // NOLINTNEXTLINE(bugprone-derived-method-shadowing-base-method): the template calls this one by its type
  void meta(const at::Tensor& grad_output, const at::Tensor& self, at::ArrayRef<int64_t> padding) {
    TORCH_CHECK(padding.size() == 2, "padding size is expected to be 2, but got: ", padding.size());
    at::meta::structured_reflection_pad1d_backward::meta(grad_output, self, padding);
  }
};

// The gradients without a meta: grad_output has the shape of the padded input. `reflects` only tells the operators apart.
template <int64_t dims, bool reflects>
struct PadBackward : public at::impl::MetaBase {
  void meta(const at::Tensor& grad_output, const at::Tensor& self, at::ArrayRef<int64_t> padding) {
    TORCH_CHECK(padding.size() == 2 * dims, "padding size is expected to be ", 2 * dims, ", but got: ", padding.size());
    TORCH_CHECK(self.dim() == dims + 1 || self.dim() == dims + 2, "Expected ", dims + 1, "D or ", dims + 2,
                "D (batch mode) tensor for input, but got: ", self.sizes());
    at::DimVector padded(self.sizes());
    for (int64_t pair = 0; pair < dims; ++pair) {
      padded[self.dim() - 1 - pair] += padding[2 * pair] + padding[2 * pair + 1];
    }
    TORCH_CHECK(grad_output.sizes() == padded, "grad_output unexpected. Expected: ", at::IntArrayRef(padded),
                ", Got: ", grad_output.sizes());
    set_output_raw_strided(0, self.sizes(), {}, self.options());
  }
};

// Windows over the last two dimensions.
struct Windows {
  at::IntArrayRef kernel, dilation, padding, stride;

  Windows(at::IntArrayRef kernel_size, at::IntArrayRef dilations, at::IntArrayRef paddings, at::IntArrayRef strides)
      : kernel(kernel_size), dilation(dilations), padding(paddings), stride(strides) {
    for (const at::IntArrayRef& pair : {kernel, dilation, padding, stride}) {
      TORCH_CHECK(pair.size() == 2, "kernel_size, dilation, padding and stride are expected to have 2 values, but got ",
                  pair.size());
    }
  }

  int64_t count(int64_t axis, int64_t size) const {
    const int64_t reach = dilation[axis] * (kernel[axis] - 1) + 1;
    return ::div_rtn<int64_t>(size + 2 * padding[axis] - reach, stride[axis]) + 1;
  }

  at::DimVector numbers(int64_t height, int64_t width) const {
    return {kernel[0],  kernel[1], dilation[0], dilation[1],      padding[0],
            padding[1], stride[0], stride[1],   count(0, height), count(1, width)};
  }
};

struct Im2col {
  static inline Binding binding;

  static at::Tensor functional(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef dilation, at::IntArrayRef padding,
                               at::IntArrayRef stride) {
    at::Tensor result = new_empty({0}, self.scalar_type(), self.device());
    return out(self, kernel, dilation, padding, stride, result);
  }

  static at::Tensor& out(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef dilation, at::IntArrayRef padding,
                         at::IntArrayRef stride, at::Tensor& result) {
    const Windows windows(kernel, dilation, padding, stride);
    at::native::im2col_shape_check(self, at::Tensor(), kernel[0], kernel[1], dilation[0], dilation[1], padding[0], padding[1],
                                   stride[0], stride[1]);
    const at::Tensor images = self.dim() == 3 ? self.unsqueeze(0) : self;
    const int64_t height = images.size(2);
    const int64_t width = images.size(3);
    result.resize_({images.size(0), images.size(1) * kernel[0] * kernel[1], windows.count(0, height) * windows.count(1, width)});
    launch_move(binding, result, images, windows.numbers(height, width));
    if (self.dim() == 3) {
      result.resize_({result.size(1), result.size(2)});
    }
    return result;
  }
};

struct Col2im {
  static inline Binding binding;

  static at::Tensor functional(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef kernel, at::IntArrayRef dilation,
                               at::IntArrayRef padding, at::IntArrayRef stride) {
    at::Tensor result = new_empty({0}, self.scalar_type(), self.device());
    return out(self, size, kernel, dilation, padding, stride, result);
  }

  static at::Tensor& out(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef kernel, at::IntArrayRef dilation,
                         at::IntArrayRef padding, at::IntArrayRef stride, at::Tensor& result) {
    TORCH_CHECK(size.size() == 2, "It is expected output_size equals to 2, but got size ", size.size());
    const Windows windows(kernel, dilation, padding, stride);
    at::native::col2im_shape_check(self, at::Tensor(), size[0], size[1], kernel[0], kernel[1], dilation[0], dilation[1], padding[0],
                                   padding[1], stride[0], stride[1]);
    const at::Tensor columns = self.dim() == 2 ? self.unsqueeze(0) : self;
    const int64_t channels = columns.size(1) / (kernel[0] * kernel[1]);
    result.resize_({columns.size(0), channels, size[0], size[1]});
    if (!launch_move(binding, result, columns, windows.numbers(size[0], size[1]))) {
      return call_fallback<at::Tensor&, const at::Tensor&, at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, at::IntArrayRef,
                           at::IntArrayRef, at::Tensor&>(binding.out, self, size, kernel, dilation, padding, stride, result);
    }
    if (self.dim() == 2) {
      result.resize_({channels, size[0], size[1]});
    }
    return result;
  }
};

struct UnfoldBackward {
  static inline Binding binding;

  static at::Tensor functional(const at::Tensor& grad, at::IntArrayRef sizes, int64_t dim, int64_t size, int64_t step) {
    at::Tensor result = new_empty(sizes, grad.scalar_type(), grad.device());
    const int64_t wrapped = at::maybe_wrap_dim(dim, result.dim());
    if (launch_move(binding, result, grad, {wrapped, size, step})) {
      return result;
    }
    return call_fallback<at::Tensor, const at::Tensor&, at::IntArrayRef, int64_t, int64_t, int64_t>(binding.functional, grad, sizes,
                                                                                                    dim, size, step);
  }
};

template <class Meta>
void bind_pad(torch::Library& m, const char* functional, const char* out, const char* kernel) {
  bind<Move<Meta, /*follows=*/true>>(m, {functional, nullptr, out, kernel});
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using namespace at::meta;
  bind_pad<structured_reflection_pad1d>(m, "reflection_pad1d", "reflection_pad1d.out", "reflection_pad");
  bind_pad<ReflectionPad2d>(m, "reflection_pad2d", "reflection_pad2d.out", "reflection_pad");
  bind_pad<structured_reflection_pad3d>(m, "reflection_pad3d", "reflection_pad3d.out", "reflection_pad");
  bind_pad<structured_replication_pad1d>(m, "replication_pad1d", "replication_pad1d.out", "replication_pad");
  bind_pad<structured_replication_pad2d>(m, "replication_pad2d", "replication_pad2d.out", "replication_pad");
  bind_pad<structured_replication_pad3d>(m, "replication_pad3d", "replication_pad3d.out", "replication_pad");
  bind_pad<ReflectionPad1dBackward>(m, "reflection_pad1d_backward", "reflection_pad1d_backward.grad_input",
                                    "reflection_pad_backward");
  bind_pad<PadBackward<2, true>>(m, "reflection_pad2d_backward", "reflection_pad2d_backward.grad_input", "reflection_pad_backward");
  bind_pad<structured_reflection_pad3d_backward>(m, "reflection_pad3d_backward", "reflection_pad3d_backward.grad_input",
                                                 "reflection_pad_backward");
  bind_pad<structured_replication_pad1d_backward>(m, "replication_pad1d_backward", "replication_pad1d_backward.grad_input",
                                                  "replication_pad_backward");
  bind_pad<PadBackward<2, false>>(m, "replication_pad2d_backward", "replication_pad2d_backward.grad_input",
                                  "replication_pad_backward");
  bind_pad<PadBackward<3, false>>(m, "replication_pad3d_backward", "replication_pad3d_backward.grad_input",
                                  "replication_pad_backward");
  bind<Im2col>(m, {"im2col", nullptr, "im2col.out", "im2col"});
  bind<Col2im>(m, {"col2im", nullptr, "col2im.out", "col2im"});
  bind<UnfoldBackward>(m, {"unfold_backward", nullptr, "unfold_backward.out", "unfold_backward"});
}

}  // namespace rustdev
