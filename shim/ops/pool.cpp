// Maximum pooling of images: the kernels take planes, or samples in channels-last layout.
#include "ops/lines.h"

#include <ATen/native/Pool.h>
#include <ATen/ops/max_pool2d_with_indices_backward_meta.h>
#include <ATen/ops/max_pool2d_with_indices_meta.h>

#include <limits>

namespace rustdev {
namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;
using PairOut = std::tuple<at::Tensor&, at::Tensor&>;
using Sizes = at::IntArrayRef;

// Images as the kernels see them.
struct Layout {
  explicit Layout(const at::Tensor& images)
      : format(images.suggest_memory_format()), channels(format == at::MemoryFormat::Contiguous ? 1 : images.size(1)) {}

  // The elements of each plane or sample, contiguous.
  at::Tensor flat(const at::Tensor& images) const {
    const at::Tensor dense = images.contiguous(format);
    const int64_t elements = images.size(-1) * images.size(-2) * channels;
    const at::Tensor ordered = channels == 1 ? dense : dense.permute({0, 2, 3, 1});
    return ordered.view({elements == 0 ? 0 : images.numel() / elements, elements});
  }

  at::MemoryFormat format;
  int64_t channels;
};

bool fits(const Binding& binding, const at::Tensor& self) {
  return takes_dtype(binding, self.scalar_type()) && self.size(-1) * self.size(-2) <= std::numeric_limits<int32_t>::max();
}

struct MaxPool {
  using Meta = at::meta::structured_max_pool2d_with_indices;
  static inline Binding binding;

  static Pair functional(const at::Tensor& self, Sizes kernel, Sizes stride, Sizes padding, Sizes dilation, bool ceil_mode) {
    Functional<Meta, 2> op;
    op.meta(self, kernel, stride, padding, dilation, ceil_mode);
    if (!launch(op, self, kernel, stride, padding, dilation)) {
      return call_fallback<Pair, const at::Tensor&, Sizes, Sizes, Sizes, Sizes, bool>(binding.functional, self, kernel, stride,
                                                                                      padding, dilation, ceil_mode);
    }
    return {op.take(0), op.take(1)};
  }

  static PairOut out(const at::Tensor& self, Sizes kernel, Sizes stride, Sizes padding, Sizes dilation, bool ceil_mode,
                     at::Tensor& result, at::Tensor& max_indices) {
    Given<Meta, 2, false> op({&result, &max_indices});
    op.meta(self, kernel, stride, padding, dilation, ceil_mode);
    const at::MemoryFormat format = self.suggest_memory_format();
    if (!result.is_contiguous(format) || !max_indices.is_contiguous(format)) {
      const auto [values, indices] = functional(self, kernel, stride, padding, dilation, ceil_mode);
      result.copy_(values);
      max_indices.copy_(indices);
      return {result, max_indices};
    }
    if (!launch(op, self, kernel, stride, padding, dilation)) {
      return call_fallback<PairOut, const at::Tensor&, Sizes, Sizes, Sizes, Sizes, bool, at::Tensor&, at::Tensor&>(
          binding.out, self, kernel, stride, padding, dilation, ceil_mode, result, max_indices);
    }
    op.finish();
    return {result, max_indices};
  }

 private:
  template <class Op>
  static bool launch(Op& op, const at::Tensor& self, Sizes kernel, Sizes stride, Sizes padding, Sizes dilation) {
    const at::Tensor& out = op.maybe_get_output(0);
    if (!fits(binding, self)) {
      return false;
    }
    if (out.numel() == 0) {
      return true;
    }
    const Layout layout(self);
    const Sizes steps = stride.empty() ? kernel : stride;
    const auto axis = [](Sizes values, size_t index) { return values.size() == 1 ? values[0] : values[index]; };
    const int64_t height = out.size(-2), width = out.size(-1);
    const at::Tensor input = layout.flat(self);
    const std::array<int64_t, 3> rows{input.size(0), height, width * layout.channels};
    const at::Tensor values = layout.flat(out).view(rows), max_indices = layout.flat(op.maybe_get_output(1)).view(rows);
    const at::Tensor* const inputs[] = {&input};
    return launch_shaped(
        binding, self.scalar_type(), {&values, &max_indices}, inputs,
        scalars_of<"max_pool2d_with_indices",
                   "kernel_height, kernel_width, dilation_height, dilation_width, padding_height, padding_width, stride_height, "
                   "stride_width, windows_height, windows_width, height, width, channels">(
            axis(kernel, 0), axis(kernel, 1), axis(dilation, 0), axis(dilation, 1), axis(padding, 0), axis(padding, 1),
            axis(steps, 0), axis(steps, 1), height, width, self.size(-2), self.size(-1), layout.channels));
  }
};

struct MaxPoolBackward {
  using Meta = at::meta::structured_max_pool2d_with_indices_backward;
  static inline Binding binding;

  static at::Tensor functional(const at::Tensor& grad, const at::Tensor& self, Sizes kernel, Sizes stride, Sizes padding,
                               Sizes dilation, bool ceil_mode, const at::Tensor& max_indices) {
    Functional<Meta> op;
    op.meta(grad, self, kernel, stride, padding, dilation, ceil_mode, max_indices);
    if (!fits(binding, self)) {
      return call_fallback<at::Tensor, const at::Tensor&, const at::Tensor&, Sizes, Sizes, Sizes, Sizes, bool, const at::Tensor&>(
          binding.functional, grad, self, kernel, stride, padding, dilation, ceil_mode, max_indices);
    }
    TORCH_CHECK(max_indices.scalar_type() == at::kLong, "expected scalar type Long but found ", max_indices.scalar_type());
    if (self.numel() == 0) {
      return op.take(0);
    }
    const Layout layout(self);
    const at::Tensor output = layout.flat(op.maybe_get_output(0)), grads = layout.flat(grad), indices = layout.flat(max_indices);
    const at::Tensor* const inputs[] = {&grads, &indices};
    launch_shaped_or_throw(binding, self.scalar_type(), {&output}, inputs, {layout.channels});
    return op.take(0);
  }

  static at::Tensor& out(const at::Tensor& grad, const at::Tensor& self, Sizes kernel, Sizes stride, Sizes padding, Sizes dilation,
                         bool ceil_mode, const at::Tensor& max_indices, at::Tensor& grad_input) {
    const at::Tensor result = functional(grad, self, kernel, stride, padding, dilation, ceil_mode, max_indices);
    resize_out(grad_input, result.sizes(), {}, result.options().memory_format(self.suggest_memory_format()));
    return grad_input.copy_(result);
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  bind<MaxPool>(m, {"max_pool2d_with_indices", nullptr, "max_pool2d_with_indices.out", "max_pool2d_with_indices"});
  bind<MaxPoolBackward>(m, {"max_pool2d_with_indices_backward", nullptr, "max_pool2d_with_indices_backward.grad_input",
                            "max_pool2d_with_indices_backward"});
}

}  // namespace rustdev
