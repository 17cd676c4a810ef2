// The operators of the namespace `rustdev`: schemas, kernels of the device, and Meta kernels, which share their checks and their
// results' strides with the device's. Autograd is in custom_autograd.cpp, autocast and functionalization in custom_modes.cpp.
#include "ops/custom.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "tensor.h"

namespace rustdev {
namespace {

// Every tensor on the device and of the dtype of the first.
void check_operands(const char* name, std::initializer_list<const at::Tensor*> tensors) {
  const at::Tensor& first = **tensors.begin();
  TORCH_CHECK(first.is_floating_point(), name, ": expected floating-point tensors, got ", first.scalar_type());
  for (const at::Tensor* tensor : tensors) {
    TORCH_CHECK(tensor->device() == first.device(),
                "Expected all tensors to be on the same device, but found at least two devices, ", first.device(), " and ",
                tensor->device(), "! (when checking arguments of ", name, ")");
    TORCH_CHECK(tensor->scalar_type() == first.scalar_type(), name, ": expected tensors of one dtype, got ", first.scalar_type(),
                " and ", tensor->scalar_type());
  }
}

// One launch of a kernel of the operator table; the inputs have the sizes of the output.
template <Name kernel>
void launch(const at::Tensor& out, std::initializer_list<at::Tensor> inputs, std::optional<double> scalar = std::nullopt) {
  if (out.numel() == 0) {
    return;
  }
  Launch launch;
  launch.output(out);
  for (const at::Tensor& input : inputs) {
    launch.input(input);
  }
  if (scalar) {
    launch.scalar(*scalar);
  }
  launch.run_or_throw(kernel_of<kernel>, static_cast<int32_t>(out.scalar_type()), out.device().index());
}

void check_swiglu(const at::Tensor& gate, const at::Tensor& up) {
  check_operands("rustdev::swiglu", {&gate, &up});
  TORCH_CHECK(gate.sym_sizes().equals(up.sym_sizes()), "rustdev::swiglu: gate and up have different sizes, ", gate.sym_sizes(),
              " and ", up.sym_sizes());
}

at::Tensor swiglu_meta(const at::Tensor& gate, const at::Tensor& up) {
  check_swiglu(gate, up);
  return at::empty_like(gate);
}

at::Tensor swiglu_kernel(const at::Tensor& gate, const at::Tensor& up) {
  at::Tensor out = swiglu_meta(gate, up);
  launch<"swiglu">(out, {gate, up});
  return out;
}

std::tuple<at::Tensor, at::Tensor> swiglu_backward_meta(const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up) {
  check_swiglu(gate, up);
  check_swiglu(gate, grad);
  return {at::empty_like(gate), at::empty_like(gate)};
}

std::tuple<at::Tensor, at::Tensor> swiglu_backward_kernel(const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up) {
  auto result = swiglu_backward_meta(grad, gate, up);
  launch<"swiglu_backward">(std::get<0>(result), {grad, gate, up});
  // The gradient of up is silu(gate) * grad.
  launch<"swiglu">(std::get<1>(result), {gate, grad});
  return result;
}

at::Tensor rotary_meta(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  check_operands("rustdev::rotary", {&x, &cos, &sin});
  TORCH_CHECK(x.dim() > 0 && cos.dim() > 0 && cos.dim() <= x.dim() && x.sym_size(-1) == cos.sym_size(-1) * 2 &&
                  cos.sym_sizes().equals(sin.sym_sizes()),
              "rustdev::rotary: angles of sizes ", cos.sym_sizes(), " and ", sin.sym_sizes(), " for vectors of sizes ",
              x.sym_sizes());
  return at::empty_like(x);
}

at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, double sign) {
  at::Tensor out = rotary_meta(x, cos, sin);
  const int64_t half = cos.size(-1);
  const at::Tensor low = x.narrow(-1, 0, half), high = x.narrow(-1, half, half);
  const at::Tensor wide_cos = cos.expand(low.sizes()), wide_sin = sin.expand(low.sizes());
  launch<"rotary">(out.narrow(-1, 0, half), {low, high, wide_cos, wide_sin}, -sign);
  launch<"rotary">(out.narrow(-1, half, half), {high, low, wide_cos, wide_sin}, sign);
  return out;
}

at::Tensor rotary_kernel(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) { return rotate(x, cos, sin, 1); }

at::Tensor rotary_backward_kernel(const at::Tensor& grad, const at::Tensor& cos, const at::Tensor& sin) {
  return rotate(grad, cos, sin, -1);
}

void check_residual_add(const at::Tensor& residual, const at::Tensor& x, const at::Tensor& bias) {
  check_operands("rustdev::residual_add", {&residual, &x, &bias});
  x.expand_symint(residual.sym_sizes());
  bias.expand_symint(residual.sym_sizes());
}

at::Tensor residual_add_meta(const at::Tensor& residual, const at::Tensor& x, const at::Tensor& bias) {
  check_residual_add(residual, x, bias);
  return at::empty_like(residual);
}

at::Tensor& residual_add_meta_(at::Tensor& residual, const at::Tensor& x, const at::Tensor& bias) {
  check_residual_add(residual, x, bias);
  return residual;
}

at::Tensor residual_add_kernel(const at::Tensor& residual, const at::Tensor& x, const at::Tensor& bias) {
  at::Tensor out = residual_add_meta(residual, x, bias);
  launch<"residual_add">(out, {residual, x.expand(residual.sizes()), bias.expand(residual.sizes())});
  return out;
}

at::Tensor& residual_add_kernel_(at::Tensor& residual, const at::Tensor& x, const at::Tensor& bias) {
  check_residual_add(residual, x, bias);
  at::assert_no_internal_overlap(residual);
  at::assert_no_partial_overlap(residual, x);
  at::assert_no_overlap(residual, bias);
  launch<"residual_add">(residual, {residual, x.expand(residual.sizes()), bias.expand(residual.sizes())});
  return residual;
}

template <class Function>
c10::TypedOperatorHandle<Function> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  static const auto op = find<at::Tensor(const at::Tensor&, const at::Tensor&)>("rustdev::swiglu");
  return op.call(gate, up);
}

std::tuple<at::Tensor, at::Tensor> swiglu_backward(const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up) {
  static const auto op =
      find<std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&, const at::Tensor&)>("rustdev::swiglu_backward");
  return op.call(grad, gate, up);
}

using Ternary = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&);

at::Tensor rotary(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  static const auto op = find<Ternary>("rustdev::rotary");
  return op.call(x, cos, sin);
}

at::Tensor rotary_backward(const at::Tensor& grad, const at::Tensor& cos, const at::Tensor& sin) {
  static const auto op = find<Ternary>("rustdev::rotary_backward");
  return op.call(grad, cos, sin);
}

at::Tensor residual_add(const at::Tensor& residual, const at::Tensor& x, const at::Tensor& bias) {
  static const auto op = find<Ternary>("rustdev::residual_add");
  return op.call(residual, x, bias);
}

at::Tensor& residual_add_(at::Tensor& residual, const at::Tensor& x, const at::Tensor& bias) {
  static const auto op = find<at::Tensor&(at::Tensor&, const at::Tensor&, const at::Tensor&)>("rustdev::residual_add_");
  return op.call(residual, x, bias);
}

TORCH_LIBRARY_FRAGMENT(rustdev, m) {
  m.def("swiglu(Tensor gate, Tensor up) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.def("swiglu_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)", {at::Tag::pt2_compliant_tag});
  m.def("rotary(Tensor x, Tensor cos, Tensor sin) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.def("rotary_backward(Tensor grad, Tensor cos, Tensor sin) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.def("geglu(Tensor gate, Tensor up) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.def("residual_add(Tensor residual, Tensor x, Tensor bias) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.def("residual_add_(Tensor(a!) residual, Tensor x, Tensor bias) -> Tensor(a!)", {at::Tag::pt2_compliant_tag});
}

TORCH_LIBRARY_IMPL(rustdev, PrivateUse1, m) {
  m.impl("swiglu", TORCH_FN(swiglu_kernel));
  m.impl("swiglu_backward", TORCH_FN(swiglu_backward_kernel));
  m.impl("rotary", TORCH_FN(rotary_kernel));
  m.impl("rotary_backward", TORCH_FN(rotary_backward_kernel));
  m.impl("residual_add", TORCH_FN(residual_add_kernel));
  m.impl("residual_add_", TORCH_FN(residual_add_kernel_));
}

TORCH_LIBRARY_IMPL(rustdev, Meta, m) {
  m.impl("swiglu", TORCH_FN(swiglu_meta));
  m.impl("swiglu_backward", TORCH_FN(swiglu_backward_meta));
  m.impl("rotary", TORCH_FN(rotary_meta));
  m.impl("rotary_backward", TORCH_FN(rotary_meta));
  m.impl("residual_add", TORCH_FN(residual_add_meta));
  m.impl("residual_add_", TORCH_FN(residual_add_meta_));
}

}  // namespace rustdev
