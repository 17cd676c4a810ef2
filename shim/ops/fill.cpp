// fill_, zero_ and relu: operators without a structured meta, one short wrapper each.
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "tensor.h"

namespace rustdev {
namespace {

const rd_op* fill_kernel() {
  static const rd_op* const op = rd_op_find("fill_");
  TORCH_INTERNAL_ASSERT(op != nullptr, "rustdev: the operator table has no fill_");
  return op;
}

at::Tensor& fill_scalar_(at::Tensor& self, const at::Scalar& value) {
  at::assert_no_internal_overlap(self);
  if (self.numel() != 0) {
    Launch launch;
    launch.output(self);
    launch.scalar(value);
    launch.run_or_throw(fill_kernel(), static_cast<int32_t>(self.scalar_type()), self.device().index());
  }
  return self;
}

at::Tensor& fill_tensor_(at::Tensor& self, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(), " dimensions.");
  if (on_device(value)) {
    return self.copy_(value);
  }
  return fill_scalar_(self, value.item());
}

at::Tensor& zero_(at::Tensor& self) {
  return fill_scalar_(self, 0);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("fill_.Scalar", TORCH_FN(fill_scalar_));
  m.impl("fill_.Tensor", TORCH_FN(fill_tensor_));
  m.impl("zero_", TORCH_FN(zero_));
}

}  // namespace rustdev
