// Pointwise operators without a structured meta: relu, abs, where and ldexp. The iterator is built here; all else is as for
// structured ones.
#include <ATen/TensorIterator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/ldexp_native.h>
#include <ATen/ops/result_type.h>
#include <torch/library.h>

#include "elementwise_launch.h"
#include "ops/factory.h"

namespace rustdev {
namespace {

// The bindings of one operator; `op` is only a tag.
template <int op>
Binding& binding() {
  static Binding instance;
  return instance;
}

enum { relu_op, abs_op, complex_abs_op, where_op, ldexp_op };

// Runs the magnitude of complex numbers into `out`, which is real or undefined (a new tensor). False where it cannot.
bool run_complex_abs(at::Tensor& out, const at::Tensor& self) {
  const c10::ScalarType dtype = c10::toRealValueType(self.scalar_type());
  if (out.defined() && out.scalar_type() != dtype) {
    return false;
  }
  auto config = at::TensorIteratorConfig();
  config.check_all_same_dtype(false).add_output(out).add_const_input(self);
  if (!out.defined()) {
    config.declare_static_dtype(dtype);
  }
  auto iter = config.build();
  Launch launch;
  if (!launch_iterator(iter, binding<complex_abs_op>(), self.scalar_type(), launch)) {
    return false;
  }
  out = iter.output();
  return true;
}

// Runs a unary kernel into `out`, which may be undefined (a new tensor) or self. False where it cannot: complex numbers have
// results of another dtype, or none.
bool run_unary(const Binding& kernel, at::Tensor& out, const at::Tensor& self) {
  if (self.is_complex()) {
    return false;
  }
  auto iter = at::TensorIterator::unary_op(out, self);
  Launch launch;
  if (!launch_iterator(iter, kernel, self.scalar_type(), launch)) {
    return false;
  }
  out = iter.output();
  return true;
}

// A unary operator whose result has the dtype of its operand.
template <int op>
struct Unary {
  static at::Tensor functional(const at::Tensor& self) {
    Launch launch;
    at::Tensor out = launch_plain(Fast::floating, binding<op>(), self, {}, false, launch);
    if (out.defined() || (op == abs_op && self.is_complex() && run_complex_abs(out, self)) || run_unary(binding<op>(), out, self)) {
      return out;
    }
    return call_fallback<at::Tensor, const at::Tensor&>(binding<op>().functional, self);
  }

  static at::Tensor& inplace(at::Tensor& self) {
    Launch launch;
    if (launch_plain(Fast::floating, binding<op>(), self, {}, true, launch).defined() || run_unary(binding<op>(), self, self)) {
      return self;
    }
    return call_fallback<at::Tensor&, at::Tensor&>(binding<op>().inplace, self);
  }

  static at::Tensor& out(const at::Tensor& self, at::Tensor& result) {
    if (op == abs_op && self.is_complex() && run_complex_abs(result, self)) {
      return result;
    }
    if (result.scalar_type() == self.scalar_type() && run_unary(binding<op>(), result, self)) {
      return result;
    }
    return call_fallback<at::Tensor&, const at::Tensor&, at::Tensor&>(binding<op>().out, self, result);
  }
};

// A 0-dim CPU tensor as one of the device, made without a wait; any other as it is.
at::Tensor brought_along(const at::Tensor& tensor, at::Device device) {
  return tensor.dim() == 0 && tensor.is_cpu() ? new_empty({}, tensor.scalar_type(), device).fill_(tensor) : tensor;
}

// The device among the tensors' that is ours, or else the CPU.
at::Device device_among(std::initializer_list<const at::Tensor*> tensors) {
  const auto* const found =
      std::find_if(tensors.begin(), tensors.end(), [](const at::Tensor* tensor) { return on_device(*tensor); });
  return found == tensors.end() ? at::Device(at::kCPU) : (*found)->device();
}

// Chooses between the two by a condition of dtype Bool; the result has their common dtype. False where the kernel cannot.
bool run_where(at::Tensor& out, const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other) {
  const c10::ScalarType dtype = at::result_type(self, other);
  if (condition.scalar_type() != c10::ScalarType::Bool || (out.defined() && out.scalar_type() != dtype)) {
    return false;
  }
  const at::Device device = device_among({&condition, &self, &other});
  if (device.is_cpu()) {
    return false;
  }
  // The iterator takes one number of the CPU.
  const at::Tensor near_condition = brought_along(condition, device);
  const at::Tensor near_self = brought_along(self, device);
  auto config = at::TensorIteratorConfig();
  config.check_all_same_dtype(false).allow_cpu_scalars(true).add_output(out).add_const_input(near_condition);
  config.add_const_input(near_self).add_const_input(other);
  if (!out.defined()) {
    config.declare_static_dtype(dtype);
  }
  auto iter = config.build();
  Launch launch;
  if (!launch_iterator(iter, binding<where_op>(), dtype, launch)) {
    return false;
  }
  out = iter.output();
  return true;
}

// The same of contiguous operands of one shape and one real dtype, without an iterator. Undefined where they are not that.
at::Tensor plain_where(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other) {
  const c10::ScalarType dtype = self.scalar_type();
  const Binding& kernel = binding<where_op>();
  if (condition.scalar_type() != c10::ScalarType::Bool || other.scalar_type() != dtype || self.is_complex() ||
      !takes_dtype(kernel, dtype) || !both_contiguous(condition, self) || !both_contiguous(condition, other) || self.numel() == 0) {
    return {};
  }
  at::Tensor out = new_empty(self.sizes(), dtype, self.device());
  Launch launch;
  launch.set_dense(self.numel());
  launch.dense(out);
  launch.finish_outputs();
  launch.dense(condition);
  launch.dense(self);
  launch.dense(other);
  launch.run_or_throw(kernel.op, static_cast<int32_t>(dtype), self.device().index());
  return out;
}

at::Tensor where(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other) {
  at::Tensor out = plain_where(condition, self, other);
  if (out.defined() || run_where(out, condition, self, other)) {
    return out;
  }
  return call_fallback<at::Tensor, const at::Tensor&, const at::Tensor&, const at::Tensor&>(binding<where_op>().functional,
                                                                                            condition, self, other);
}

at::Tensor& where_out(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other, at::Tensor& result) {
  if (run_where(result, condition, self, other)) {
    return result;
  }
  return call_fallback<at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, at::Tensor&>(
      binding<where_op>().out, condition, self, other, result);
}

// Multiplies floating-point numbers by powers of 2 with whole exponents. False where the dtypes are others.
bool run_ldexp(at::Tensor& out, const at::Tensor& self, const at::Tensor& other) {
  const c10::ScalarType dtype = self.scalar_type();
  if (!c10::isIntegralType(other.scalar_type(), /*includeBool=*/false) || (out.defined() && out.scalar_type() != dtype)) {
    return false;
  }
  auto config = at::TensorIteratorConfig();
  config.check_all_same_dtype(false).allow_cpu_scalars(true).add_output(out).add_const_input(self).add_const_input(other);
  if (!out.defined()) {
    config.declare_static_dtype(dtype);
  }
  auto iter = config.build();
  Launch launch;
  if (iter.device(0).type() != device_type || !launch_iterator(iter, binding<ldexp_op>(), dtype, launch)) {
    return false;
  }
  out = iter.output();
  return true;
}

at::Tensor ldexp(const at::Tensor& self, const at::Tensor& other) {
  at::Tensor out;
  return run_ldexp(out, self, other) ? out : at::native::ldexp(self, other);
}

at::Tensor& ldexp_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& result) {
  if (run_ldexp(result, self, other)) {
    return result;
  }
  at::Tensor out;
  if (!run_ldexp(out, self, other)) {
    return at::native::ldexp_out(self, other, result);
  }
  TORCH_CHECK(c10::canCast(out.scalar_type(), result.scalar_type()), "ldexp can't be cast to the desired output type ",
              c10::toString(result.scalar_type()));
  at::native::resize_output(result, out.sizes());
  return result.copy_(out);
}

at::Tensor& ldexp_(at::Tensor& self, const at::Tensor& other) { return rustdev::ldexp_out(self, other, self); }

// Whether this PyTorch has the operator, and does not make it of a power and a product that it differentiates one by one.
bool has_ldexp() {
  const auto schema = c10::Dispatcher::singleton().findSchema({"aten::ldexp", "Tensor"});
  return schema && !schema->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  find_kernel(binding<relu_op>(), {"relu", "relu_", "relu.out", "relu"});
  m.impl("relu", TORCH_FN(Unary<relu_op>::functional));
  m.impl("relu_", TORCH_FN(Unary<relu_op>::inplace));
  find_kernel(binding<abs_op>(), {"abs", "abs_", "abs.out", "abs"});
  m.impl("abs", TORCH_FN(Unary<abs_op>::functional));
  m.impl("abs.out", TORCH_FN(Unary<abs_op>::out));
  find_kernel(binding<complex_abs_op>(), {"abs", "abs_", "abs.out", "complex_abs"});
  if (has_ldexp()) {
    find_kernel(binding<ldexp_op>(), {"ldexp.Tensor", "ldexp_", "ldexp.out", "ldexp"});
    m.impl("ldexp.Tensor", TORCH_FN(ldexp));
    m.impl("ldexp_", TORCH_FN(ldexp_));
    m.impl("ldexp.out", TORCH_FN(ldexp_out));
  }
  find_kernel(binding<where_op>(), {"where.self", nullptr, "where.self_out", "where"});
  m.impl("where.self", TORCH_FN(where));
  m.impl("where.self_out", TORCH_FN(where_out));
}

}  // namespace rustdev
