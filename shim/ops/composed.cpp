// Pointwise operators composed of others: PyTorch's own function where it calls the dispatcher, else the same composition.
#include <ATen/Functions.h>
#include <ATen/ScalarOps.h>
#include <ATen/ops/hardtanh_native.h>
#include <ATen/ops/isnan_native.h>
#include <ATen/ops/norm_meta.h>
#include <ATen/ops/remainder_native.h>
#include <ATen/ops/rsub_native.h>

#include "awaited.h"
#include "structured.h"
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

// What PyTorch's CPU kernel checks of the vectors of a dot product.
void check_dot(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.dim() == 1 && other.dim() == 1, "1D tensors expected, but got ", self.dim(), "D and ", other.dim(), "D tensors");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "dot : expected both vectors to have same dtype, but found ",
              self.scalar_type(), " and ", other.scalar_type());
  TORCH_CHECK(self.numel() == other.numel(), "inconsistent tensor size, expected tensor [", self.numel(), "] and src [",
              other.numel(), "] to have the same number of elements, but got ", self.numel(), " and ", other.numel(),
              " elements respectively");
}

at::Tensor dot(const at::Tensor& self, const at::Tensor& other) {
  check_dot(self, other);
  return at::mv(self.unsqueeze(0), other).squeeze(0);
}

at::Tensor vdot(const at::Tensor& self, const at::Tensor& other) { return rustdev::dot(self.conj(), other); }

// A clone resolves the bit.
at::Tensor conj_physical(const at::Tensor& self) { return self.conj().clone(); }

at::Tensor& conj_physical_(at::Tensor& self) {
  if (self.is_complex() && self.is_conj()) {
    return self.copy_(self.conj());
  }
  if (self.is_complex()) {
    at::imag(self).neg_();
  }
  return self;
}

// PyTorch's kernel is the same call, behind a meta of its own.
at::Tensor norm(const at::Tensor& self, const std::optional<at::Scalar>& p, at::IntArrayRef dim, bool keepdim) {
  Functional<at::meta::structured_norm_ScalarOpt_dim> op;
  op.meta(self, p ? at::OptionalScalarRef(*p) : at::OptionalScalarRef(), dim, keepdim);
  at::Tensor result = op.take(0);
  return at::linalg_vector_norm_out(result, self, p.value_or(2.0), dim, keepdim);
}

std::tuple<at::Tensor, at::Tensor> prelu_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& weight) {
  const at::Tensor positive = self.gt(0);
  const at::Tensor zero = at::zeros({}, self.options());
  return {at::where(positive, grad, grad.mul(weight)), at::where(positive, zero, grad.mul(self))};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  Tier composite(m, "composite");
  bind_shifts<const at::Tensor&>(composite, ".Tensor");
  bind_shifts<const at::Scalar&>(composite, ".Scalar");
  composite.impl("_prelu_kernel_backward", TORCH_FN(prelu_backward));
  composite.impl("_conj_physical", TORCH_FN(conj_physical));
  composite.impl("conj_physical_", TORCH_FN(conj_physical_));
  composite.impl("dot", TORCH_FN(dot));
  composite.impl("equal", TORCH_FN(equal));
  composite.impl("floor_divide", TORCH_FN(floor_divide));
  composite.impl("floor_divide.out", TORCH_FN(floor_divide_out));
  composite.impl("floor_divide_.Tensor", TORCH_FN(floor_divide_));
  composite.impl("hardtanh", TORCH_FN(at::native::hardtanh));
  composite.impl("hardtanh.out", TORCH_FN(at::native::hardtanh_out));
  composite.impl("hardtanh_", TORCH_FN(at::native::hardtanh_));
  composite.impl("isnan", TORCH_FN(at::native::isnan));
  composite.impl("norm.ScalarOpt_dim", TORCH_FN(norm));
  composite.impl("pow.Scalar", TORCH_FN(pow));
  composite.impl("pow.Scalar_out", TORCH_FN(pow_out));
  composite.impl("remainder.Scalar_Tensor",
                 static_cast<at::Tensor (*)(const at::Scalar&, const at::Tensor&)>(at::native::remainder));
  composite.impl("rsub.Tensor",
                 static_cast<at::Tensor (*)(const at::Tensor&, const at::Tensor&, const at::Scalar&)>(at::native::rsub));
  composite.impl("vdot", TORCH_FN(vdot));
}

}  // namespace rustdev
