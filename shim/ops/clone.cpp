// clone: PyTorch's own code; the copy keeps the label.
#include <ATen/ops/clone_native.h>
#include <torch/library.h>

#include "ops/tier.h"
#include "runtime/label.h"

namespace rustdev {
namespace {

at::Tensor clone(const at::Tensor& self, std::optional<at::MemoryFormat> memory_format) {
  at::Tensor copy = at::native::clone(self, memory_format);
  carry_label(self, copy);
  return copy;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  Tier aten(m, "aten");
  aten.impl("clone", TORCH_FN(clone));
}

}  // namespace rustdev
