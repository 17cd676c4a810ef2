// Operators that move elements: cat, and those that PyTorch composes of views and copies on every device but the CPU.
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_stack_native.h>
#include <ATen/ops/cat_meta.h>
#include <ATen/ops/channel_shuffle_native.h>
#include <ATen/ops/narrow_copy_native.h>
#include <ATen/ops/native_channel_shuffle_native.h>
#include <ATen/ops/pixel_shuffle_native.h>
#include <ATen/ops/pixel_unshuffle_native.h>

#include <vector>

#include "ops/tier.h"
#include "outputs.h"

namespace rustdev {
namespace {

// A launch over any number of tensors, which keep their sizes.
class ManyLaunch {
 public:
  explicit ManyLaunch(size_t operands) {
    operands_.reserve(operands);
    strides_.reserve(operands);
  }

  void add(const at::Tensor& tensor) {
    at::DimVector bytes(tensor.strides());
    for (int64_t& stride : bytes) {
      stride *= static_cast<int64_t>(tensor.itemsize());
    }
    strides_.push_back(std::move(bytes));
    const uint32_t flags = (tensor.is_conj() ? RD_OPERAND_CONJ : 0U) | (tensor.is_neg() ? RD_OPERAND_NEG : 0U);
    operands_.push_back(rd_operand{data_of(tensor), tensor.sizes().data(), strides_.back().data(),
                                   static_cast<int32_t>(tensor.dim()), static_cast<int32_t>(tensor.scalar_type()), flags});
  }

  void run(const rd_op* op, int64_t number, c10::Device device) const {
    const rd_scalar scalar = to_scalar(number);
    const rd_launch_args args{operands_.data(), operands_.size(), 1, &scalar, 1, /*compute_dtype=*/-1, 0};
    RD_CHECK(rd_launch(op, device.index(), &args));
  }

 private:
  std::vector<rd_operand> operands_;
  std::vector<at::DimVector> strides_;
};

// Sizes and strides that the descriptors of one launch may hold, and some to spare.
constexpr int64_t words_per_launch = 60000;

void launch_cat(const at::Tensor& out, const at::ITensorListRef& tensors, int64_t dim) {
  const rd_op* const op = kernel_of<"cat">;
  std::vector<at::Tensor> inputs;
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK(tensor.device() == out.device(), "Expected all tensors to be on the same device, but found at least two devices, ",
                out.device(), " and ", tensor.device(), "! (when checking argument for argument tensors in method cat)");
    if (tensor.numel() != 0) {
      inputs.push_back(tensor);
    }
  }
  const auto per_launch = static_cast<size_t>(words_per_launch / (2 * std::max<int64_t>(out.dim(), 1)));
  int64_t begin = 0;
  for (size_t first = 0; first < inputs.size(); first += per_launch) {
    const size_t last = std::min(inputs.size(), first + per_launch);
    ManyLaunch launch(last - first + 1);
    int64_t length = 0;
    for (size_t index = first; index < last; ++index) {
      length += inputs[index].size(dim);
    }
    const at::Tensor part = last - first == inputs.size() ? out : out.narrow(dim, begin, length);
    launch.add(part);
    for (size_t index = first; index < last; ++index) {
      launch.add(inputs[index]);
    }
    launch.run(op, dim, out.device());
    begin += length;
  }
}

at::Tensor cat(const at::ITensorListRef& tensors, int64_t dim) {
  Functional<at::meta::structured_cat> op;
  const auto found = op.meta(tensors, dim);
  launch_cat(op.maybe_get_output(0), tensors, found.dim);
  return op.take(0);
}

at::Tensor& cat_out(const at::ITensorListRef& tensors, int64_t dim, at::Tensor& result) {
  Given<at::meta::structured_cat, 1, false> op({&result});
  const auto found = op.meta(tensors, dim);
  launch_cat(op.maybe_get_output(0), tensors, found.dim);
  op.finish();
  return result;
}

// PyTorch's composition views its input, which has to lie in one piece for that; the result has the input's memory format.
at::Tensor native_channel_shuffle(const at::Tensor& self, int64_t groups) {
  return at::native::math_channel_shuffle(self.contiguous(), groups).contiguous(self.suggest_memory_format());
}

at::Tensor trace(const at::Tensor& self) {
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  return self.diagonal().sum();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("cat", TORCH_FN(cat));
  m.impl("cat.out", TORCH_FN(cat_out));
  Tier composite(m, "composite");
  composite.impl("trace", TORCH_FN(trace));
  composite.impl("_stack", TORCH_FN(at::native::_stack));
  composite.impl("_stack.out", TORCH_FN(at::native::_stack_out));
  composite.impl("channel_shuffle", TORCH_FN(at::native::channel_shuffle));
  composite.impl("native_channel_shuffle", TORCH_FN(native_channel_shuffle));
  composite.impl("pixel_shuffle", TORCH_FN(at::native::math_pixel_shuffle));
  composite.impl("pixel_unshuffle", TORCH_FN(at::native::math_pixel_unshuffle));
  composite.impl("narrow_copy", TORCH_FN(at::native::narrow_copy_dense_symint));
}

}  // namespace rustdev
