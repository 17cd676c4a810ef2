// Masked operators and nonzero: masked_fill_, masked_select, masked_scatter_, nonzero. Results whose size depends on values wait
// for the device.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>

#include "awaited.h"
#include "ops/factory.h"
#include "ops/fill.h"
#include "ops/lines.h"

namespace rustdev {
namespace {

// How many elements are not 0.
int64_t count_of_nonzero(const at::Tensor& dense) {
  const rd_op* const op = kernel_of<"nonzero_count">;
  if (dense.numel() == 0) {
    return 0;
  }
  const at::Tensor count = new_empty({}, at::ScalarType::Long, dense.device());
  Launch launch;
  launch.output(count);
  launch.input(dense);
  launch.run_or_throw(op, static_cast<int32_t>(dense.scalar_type()), dense.device().index());
  return awaited<int64_t>(count, "nonzero, masked_select or an index that is a mask (the result's size is read on the host)");
}

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

struct MaskedSelect {
  static inline Binding binding;

  static at::Tensor functional(const at::Tensor& self, const at::Tensor& mask) {
    at::Tensor result = new_empty({0}, self.scalar_type(), self.device());
    return out(self, mask, result);
  }

  static at::Tensor& out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& result) {
    TORCH_CHECK(mask.scalar_type() == at::ScalarType::Bool, "masked_select: expected BoolTensor for mask");
    TORCH_CHECK(self.scalar_type() == result.scalar_type(), "masked_select(): self and result must have the same scalar type");
    TORCH_CHECK(self.device() == mask.device() && self.device() == result.device(),
                "masked_select: expected self, mask and result on one device, but got ", self.device(), ", ", mask.device(),
                " and ", result.device());
    at::assert_no_internal_overlap(result);
    at::assert_no_overlap(result, self);
    at::assert_no_overlap(result, mask);
    const auto [mask_over, self_over] = at::expand_outplace(mask, self);
    const at::Tensor dense_mask = mask_over->contiguous();
    const int64_t count = count_of_nonzero(dense_mask);
    at::native::resize_output(result, {count});
    if (count != 0) {
      const at::Tensor dense = self_over->contiguous();
      const at::Tensor* const inputs[] = {&dense, &dense_mask};
      launch_shaped_or_throw(binding, self.scalar_type(), {&result}, inputs, {});
    }
    return result;
  }
};

struct MaskedScatter {
  static inline Binding binding;

  static at::Tensor& inplace(at::Tensor& self, const at::Tensor& mask, const at::Tensor& source) {
    at::assert_no_internal_overlap(self);
    TORCH_CHECK(self.scalar_type() == source.scalar_type(), "masked_scatter: expected self and source to have same dtypes but got ",
                self.scalar_type(), " and ", source.scalar_type());
    TORCH_CHECK(mask.scalar_type() == at::ScalarType::Bool, "masked_scatter_ only supports boolean masks, but got mask with dtype ",
                mask.scalar_type());
    TORCH_CHECK(self.device() == mask.device() && self.device() == source.device(),
                "masked_scatter_: expected self, mask and source on one device, but got ", self.device(), ", ", mask.device(),
                " and ", source.device());
    const auto mask_over = at::expand_inplace(self, mask, "masked_scatter_");
    if (self.numel() == 0) {
      return self;
    }
    const at::Tensor dense_mask = mask_over->contiguous();
    const at::Tensor dense_source = source.contiguous().view({-1});
    const at::Tensor dense = self.contiguous();
    const at::Tensor* const inputs[] = {&dense_source, &dense_mask};
    launch_shaped_or_throw(binding, self.scalar_type(), {&dense}, inputs, {});
    if (!dense.is_same(self)) {
      self.copy_(dense);
    }
    return self;
  }
};

struct Nonzero {
  static inline Binding binding;

  static at::Tensor functional(const at::Tensor& self) {
    at::Tensor result = new_empty({0}, at::ScalarType::Long, self.device());
    return out(self, result);
  }

  static at::Tensor& out(const at::Tensor& self, at::Tensor& result) {
    check(self, result, "nonzero");
    if (C10_UNLIKELY(!takes_dtype(binding, self.scalar_type()))) {
      return call_fallback<at::Tensor&, const at::Tensor&, at::Tensor&>(binding.out, self, result);
    }
    const at::Tensor dense = self.contiguous();
    const int64_t count = count_of_nonzero(dense);
    if (at::native::resize_output(result, {count, self.dim()})) {
      result.as_strided_({count, self.dim()}, {1, count});
    }
    run(dense, result, 0);
    return result;
  }

  static at::Tensor fixed(const at::Tensor& self, int64_t size, int64_t fill) {
    at::Tensor result = new_empty({0}, at::ScalarType::Long, self.device());
    return fixed_out(self, size, fill, result);
  }

  static at::Tensor& fixed_out(const at::Tensor& self, int64_t size, int64_t fill, at::Tensor& result) {
    TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
    check(self, result, "nonzero_static");
    at::native::resize_output(result, {size, self.dim()});
    if (self.numel() == 0) {
      result.fill_(fill);
    } else {
      run(self.contiguous(), result, fill);
    }
    return result;
  }

 private:
  static void check(const at::Tensor& self, const at::Tensor& result, const char* name) {
    TORCH_CHECK(result.scalar_type() == at::ScalarType::Long, name,
                ": Expected out tensor to have scalar type Long but got scalar type", result.scalar_type());
    TORCH_CHECK(result.device() == self.device(), name, ": expected out on ", self.device(), ", but got ", result.device());
    at::assert_no_internal_overlap(result);
    at::assert_no_overlap(result, self);
  }

  static void run(const at::Tensor& dense, const at::Tensor& result, int64_t fill) {
    if (result.numel() != 0) {
      const at::Tensor* const inputs[] = {&dense};
      launch_shaped_or_throw(binding, dense.scalar_type(), {&result}, inputs, {fill});
    }
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  find_kernel(MaskedFill::binding, {"masked_fill_.Scalar", nullptr, "masked_fill_.Scalar", "where"});
  m.impl("masked_fill_.Scalar", TORCH_FN(MaskedFill::with_number));
  m.impl("masked_fill_.Tensor", TORCH_FN(MaskedFill::with_tensor));
  bind<MaskedSelect>(m, {"masked_select", nullptr, "masked_select.out", "masked_select"});
  find_kernel(MaskedScatter::binding, {"masked_scatter_", nullptr, "masked_scatter_", "masked_scatter"});
  m.impl("masked_scatter_", TORCH_FN(MaskedScatter::inplace));
  bind<Nonzero>(m, {"nonzero", nullptr, "nonzero.out", "nonzero"});
  m.impl("nonzero_static", TORCH_FN(Nonzero::fixed));
  m.impl("nonzero_static.out", TORCH_FN(Nonzero::fixed_out));
}

}  // namespace rustdev
