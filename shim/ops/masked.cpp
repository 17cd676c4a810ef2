// masked_fill_.
#include <ATen/MemoryOverlap.h>

#include "ops/fill.h"
#include "structured.h"

namespace rustdev {
namespace {

struct MaskedFill {
  static inline Binding binding;  // of the kernel "where"

  static at::Tensor& with_number(at::Tensor& self, const at::Tensor& mask, const at::Scalar& value) {
    check(self, mask);
    check_value(value, self.scalar_type());
    auto iter = config(self, mask).add_const_input(self).build();
    if (!takes_dtype(binding, self.scalar_type())) {
      return call_fallback<at::Tensor&, at::Tensor&, const at::Tensor&, const at::Scalar&>(binding.functional, self, mask, value);
    }
    const rd_scalar number = to_scalar(value);
    Launch launch;
    launch.iterator(iter);
    launch.immediate(number);
    return run(self, iter, launch);
  }

  static at::Tensor& with_tensor(at::Tensor& self, const at::Tensor& mask, const at::Tensor& value) {
    TORCH_CHECK(value.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ", value.dim(),
                " dimension(s).");
    if (!on_device(value) || !takes_dtype(binding, self.scalar_type()) || (value.is_complex() && !self.is_complex())) {
      return with_number(self, mask, value.item());
    }
    check(self, mask);
    auto iter = config(self, mask).add_const_input(self).add_const_input(value).build();
    Launch launch;
    launch.iterator(iter);
    return run(self, iter, launch);
  }

 private:
  static void check(const at::Tensor& self, const at::Tensor& mask) {
    TORCH_CHECK(mask.scalar_type() == at::ScalarType::Bool, "masked_fill_ only supports boolean masks, but got mask with dtype ",
                mask.dtype());
    if (at::has_internal_overlap(self) == at::MemOverlap::Yes) {
      TORCH_WARN("Use of masked_fill_ on expanded tensors is deprecated. ",
                 "Please clone() the tensor before performing this operation. ",
                 "This also applies to advanced indexing e.g. tensor[mask] = scalar");
    }
    at::assert_no_partial_overlap(self, mask);
  }

  static at::TensorIteratorConfig config(const at::Tensor& self, const at::Tensor& mask) {
    at::TensorIteratorConfig config;
    config.set_check_mem_overlap(false).check_all_same_dtype(false).resize_outputs(false).add_output(self).add_const_input(mask);
    return config;
  }

  // The kernel wants [out, mask, value, self].
  static at::Tensor& run(at::Tensor& self, const at::TensorIteratorBase& iter, Launch& launch) {
    if (iter.numel() != 0) {
      launch.swap(2, 3);
      launch.run_or_throw(binding.op, static_cast<int32_t>(self.scalar_type()), self.device().index());
    }
    return self;
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  find_kernel(MaskedFill::binding, {"masked_fill_.Scalar", nullptr, "masked_fill_.Scalar", "where"});
  m.impl("masked_fill_.Scalar", TORCH_FN(MaskedFill::with_number));
  m.impl("masked_fill_.Tensor", TORCH_FN(MaskedFill::with_tensor));
}

}  // namespace rustdev
