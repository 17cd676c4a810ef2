// fill_ and zero_, and the new tensors that they fill: zeros, ones, full.
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/full_like_native.h>
#include <ATen/ops/ones_like_native.h>
#include <ATen/ops/zeros_like_native.h>
#include <torch/library.h>

#include "ops/factory.h"
#include "rustdev_operators.h"
#include "tensor.h"

namespace rustdev {
namespace {

// The number as a scalar of a launch. UInt64 numbers, which may exceed int64, are passed as their bits.
rd_scalar number_for(const at::Scalar& value, at::ScalarType dtype) {
  if (C10_UNLIKELY(dtype == at::kUInt64)) {
    return {static_cast<int32_t>(at::kLong), static_cast<int64_t>(value.to<uint64_t>()), value.to<double>(), 0.0};
  }
  return to_scalar(value);
}

// Throws if the dtype cannot hold the number. As in PyTorch's fast path, a single 16 bit float is cast instead: an overflow becomes
// infinity.
void check_value(const rd_scalar& number, const at::Scalar& value, const at::Tensor& self) {
  const at::ScalarType dtype = self.scalar_type();
  const bool holds = (dtype == at::kFloat || dtype == at::kDouble) && surely_holds(dtype, number);
  if (!holds && (self.numel() != 1 || !c10::isReducedFloatingType(dtype) || value.isComplex())) {
    check_number(value, dtype);
  }
}

at::Tensor& fill_scalar_(at::Tensor& self, const at::Scalar& value) {
  const rd_op* const op = kernel_of<"fill_">;
  const rd_scalar number = number_for(value, self.scalar_type());
  check_value(number, value, self);
  if (self.numel() != 0) {
    Launch launch;
    launch.alone(distinct(self));
    launch.immediate(number);
    launch.run_or_throw(op, static_cast<int32_t>(self.scalar_type()), self.device().index());
  }
  return self;
}

at::Tensor& fill_tensor_(at::Tensor& self, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(), " dimensions.");
  if (on_device(value)) {
    return self.copy_(value);
  }
  at::assert_no_internal_overlap(self);
  return fill_scalar_(self, value.item());
}

at::Tensor& zero_(at::Tensor& self) {
  const rd_op* const op = kernel_of<"zero_">;
  if (self.numel() != 0) {
    Launch launch;
    launch.alone(distinct(self));
    launch.run_or_throw(op, static_cast<int32_t>(self.scalar_type()), self.device().index());
  }
  return self;
}

void fill_one(at::Tensor& self) { fill_scalar_(self, 1); }

at::Tensor zeros(at::IntArrayRef size, RD_OPTIONS) {
  return filled<zero_>(size, c10::get_default_dtype_as_scalartype(), dtype, layout, device, pin_memory);
}

at::Tensor ones(at::IntArrayRef size, RD_OPTIONS) {
  return filled<fill_one>(size, c10::get_default_dtype_as_scalartype(), dtype, layout, device, pin_memory);
}

// The dtype of `full` without a dtype argument: the value's.
at::ScalarType dtype_of(const at::Scalar& value) {
  if (value.isBoolean()) {
    return at::kBool;
  }
  if (value.isIntegral(/*includeBool=*/false)) {
    return at::kLong;
  }
  const at::ScalarType real = c10::get_default_dtype_as_scalartype();
  return value.isComplex() ? c10::toComplexType(real) : real;
}

at::Tensor full(at::IntArrayRef size, const at::Scalar& value, RD_OPTIONS) {
  return filled<fill_scalar_>(size, dtype_of(value), dtype, layout, device, pin_memory, value);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("fill_.Scalar", TORCH_FN(fill_scalar_));
  m.impl("fill_.Tensor", TORCH_FN(fill_tensor_));
  m.impl("zero_", TORCH_FN(zero_));
  m.impl("zeros", TORCH_FN(zeros));
  m.impl("ones", TORCH_FN(ones));
  m.impl("full", TORCH_FN(full));
  m.impl("zeros_like", TORCH_FN(Like<zero_>::call<at::native::zeros_like>));
  m.impl("ones_like", TORCH_FN(Like<fill_one>::call<at::native::ones_like>));
  m.impl("full_like", TORCH_FN((Like<fill_scalar_, const at::Scalar&>::call<at::native::full_like>)));
}

}  // namespace rustdev
