// Operators that move elements: cat, flip, roll, triangles, and those that PyTorch composes of views and copies on every device but
// the CPU.
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/_stack_native.h>
#include <ATen/ops/cat_meta.h>
#include <ATen/ops/channel_shuffle_native.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/narrow_copy_native.h>
#include <ATen/ops/native_channel_shuffle_native.h>
#include <ATen/ops/pixel_shuffle_native.h>
#include <ATen/ops/pixel_unshuffle_native.h>
#include <ATen/ops/tril_meta.h>
#include <ATen/ops/triu_meta.h>

#include <vector>

#include "ops/factory.h"
#include "ops/lines.h"
#include "ops/tier.h"

namespace rustdev {
namespace {

// Launches the kernel of one output, one input and whole numbers. False where it does not take the dtype: nothing was done.
bool launch_move(const Binding& binding, const at::Tensor& out, const at::Tensor& source, at::IntArrayRef numbers) {
  if (out.numel() == 0) {
    return takes_dtype(binding, out.scalar_type());
  }
  const at::Tensor* const inputs[] = {&source};
  const c10::SmallVector<at::Scalar, 8> scalars(numbers.begin(), numbers.end());
  return launch_shaped(binding, out.scalar_type(), {&out}, inputs, scalars);
}

// The rule of triangles: the scalar is the diagonal.
struct TriangleRule {
  template <class Op>
  static bool launch(const Binding& binding, Op& op, const at::Tensor& self, int64_t diagonal) {
    return launch_move(binding, op.maybe_get_output(0), self, diagonal);
  }
};

template <class Meta>
using Triangle = Variants<Meta, TriangleRule>;

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

at::Tensor flip(const at::Tensor& self, at::IntArrayRef dims) {
  const Binding& binding = binding_of<"flip">;
  const auto flipped = at::dim_list_to_bitset(dims, self.dim());
  at::Tensor result = at::empty_like(self, at::MemoryFormat::Preserve);
  launch_move(binding, result, self, static_cast<int64_t>(flipped.to_ullong()));
  return result;
}

// Dimensions in one launch: each doubles the copies.
constexpr size_t rolls_per_launch = 4;

// `moves`: dimension, shift, dimension, shift...
at::Tensor launch_roll(const at::Tensor& self, at::IntArrayRef moves) {
  const Binding& binding = binding_of<"roll">;
  at::Tensor result = new_empty(self.sizes(), self.scalar_type(), self.device(), self.suggest_memory_format());
  launch_move(binding, result, self, moves);
  return result;
}

at::Tensor roll(const at::Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims) {
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  if (dims.empty() && shifts.size() == 1) {
    return roll(self.contiguous().view(-1), shifts, 0).view(self.sizes());
  }
  TORCH_CHECK(shifts.size() == dims.size(), "shifts and dimensions must align. shifts: ", shifts.size(), ", dims:", dims.size());
  if (self.numel() == 0) {
    return self.clone(at::MemoryFormat::Preserve);
  }
  at::Tensor result = self;
  at::DimVector moves;
  for (size_t index = 0; index < dims.size(); ++index) {
    const int64_t dim = at::maybe_wrap_dim(dims[index], self.dim());
    const int64_t size = self.size(dim);
    const int64_t shift = ((shifts[index] % size) + size) % size;
    size_t place = 0;
    while (place < moves.size() && moves[place] != dim) {
      place += 2;
    }
    if (place < moves.size()) {
      moves[place + 1] = (moves[place + 1] + shift) % size;
    } else if (moves.size() < 2 * rolls_per_launch) {
      moves.append({dim, shift});
    } else {
      result = launch_roll(result, moves);
      moves.assign({dim, shift});
    }
  }
  return launch_roll(result, moves);
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
  m.impl("flip", TORCH_FN(flip));
  m.impl("roll", TORCH_FN(roll));
  bind<Triangle<at::meta::structured_tril>>(m, {"tril", "tril_", "tril.out", "tril"});
  bind<Triangle<at::meta::structured_triu>>(m, {"triu", "triu_", "triu.out", "triu"});
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
