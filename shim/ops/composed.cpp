// Operators composed of others that programs call often: PyTorch's own function where it calls the dispatcher, else the same
// composition. Those of few calls are in python/rustdev/_ops/.
#include <ATen/Functions.h>
#include <ATen/ScalarOps.h>
#include <ATen/ops/hardtanh_native.h>
#include <ATen/ops/isnan_native.h>
#include <ATen/ops/remainder_native.h>
#include <ATen/ops/rsub_native.h>

#include "awaited.h"
#include "elementwise_launch.h"
#include "tier.h"

namespace rustdev {
namespace {

at::Tensor floor_divide(const at::Tensor& self, const at::Tensor& other) { return at::div(self, other, "floor"); }

at::Tensor& floor_divide_(at::Tensor& self, const at::Tensor& other) { return self.div_(other, "floor"); }

at::Tensor& floor_divide_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  return at::div_out(out, self, other, "floor");
}

// Whether all powers of a number are 1, those by NaN too: they are taken as powers by the 0 of its kind.
bool is_one(const at::Scalar& base) { return !base.isBoolean() && base.equal(1.0); }

at::Scalar zero_like(const at::Scalar& number) {
  if (number.isComplex()) {
    return c10::complex<double>(0.0);
  }
  return number.isFloatingPoint() ? at::Scalar(0.0) : at::Scalar(0);
}

at::Tensor pow(const at::Scalar& base, const at::Tensor& exponent) {
  if (is_one(base)) {
    return at::pow(exponent, zero_like(base));
  }
  return at::pow(at::native::wrapped_scalar_tensor(base), exponent);
}

at::Tensor& pow_out(const at::Scalar& base, const at::Tensor& exponent, at::Tensor& out) {
  if (is_one(base)) {
    return at::pow_out(out, exponent, zero_like(base));
  }
  return at::pow_out(out, at::native::wrapped_scalar_tensor(base), exponent);
}

// The older names of shifts, of tensors and of numbers.
template <class Number>
void bind_shifts(Tier& composite, const std::string& overload) {
  using Self = at::Tensor&;
  const auto bind = [&](const char* name, auto function) { composite.impl((name + overload).c_str(), function); };
  bind("__lshift__", [](const at::Tensor& self, Number by) { return at::bitwise_left_shift(self, by); });
  bind("__rshift__", [](const at::Tensor& self, Number by) { return at::bitwise_right_shift(self, by); });
  bind("__ilshift__", [](Self self, Number by) -> Self { return self.bitwise_left_shift_(by); });
  bind("__irshift__", [](Self self, Number by) -> Self { return self.bitwise_right_shift_(by); });
}

// Waits for the answer.
bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(), "Cannot compare two tensors on different devices. Got: ", self.device(), " and ",
              other.device());
  TORCH_CHECK(self.dtype() == other.dtype(), "Expected object of data type ", self.dtype(), " but got data type ", other.dtype(),
              " for argument 'other' in call to equal");
  return self.is_same_size(other) &&
         (self.numel() == 0 || awaited<bool>(at::eq(self, other).all(), "equal (the answer is read on the host)"));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  Tier composite(m, "composite");
  bind_shifts<const at::Tensor&>(composite, ".Tensor");
  bind_shifts<const at::Scalar&>(composite, ".Scalar");
  composite.impl("equal", TORCH_FN(equal));
  composite.impl("floor_divide", TORCH_FN(floor_divide));
  composite.impl("floor_divide.out", TORCH_FN(floor_divide_out));
  composite.impl("floor_divide_.Tensor", TORCH_FN(floor_divide_));
  composite.impl("hardtanh", TORCH_FN(at::native::hardtanh));
  composite.impl("hardtanh.out", TORCH_FN(at::native::hardtanh_out));
  composite.impl("hardtanh_", TORCH_FN(at::native::hardtanh_));
  composite.impl("isnan", TORCH_FN(at::native::isnan));
  composite.impl("pow.Scalar", TORCH_FN(pow));
  composite.impl("pow.Scalar_out", TORCH_FN(pow_out));
  composite.impl("remainder.Scalar_Tensor",
                 static_cast<at::Tensor (*)(const at::Scalar&, const at::Tensor&)>(at::native::remainder));
  composite.impl("rsub.Tensor",
                 static_cast<at::Tensor (*)(const at::Tensor&, const at::Tensor&, const at::Scalar&)>(at::native::rsub));
}

}  // namespace rustdev
