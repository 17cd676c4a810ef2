// Gradients of custom operators: three ways, one for each operator of the namespace `rustdev`:
//   swiglu        a torch::autograd::Function, which saves two tensors where silu(gate) * up saves three;
//   rotary        forward and backward are operators, each the other's derivative: a gradient of any order is a call of one of
//   them; residual_add  the forward alone: PyTorch's not-implemented kernels refuse to differentiate, and count in-place versions.
//
// They are on AutogradPrivateUse1, not in the device's kernels: those run below autograd and see neither graph nor grad mode.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/gelu.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/custom.h"

namespace rustdev {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Swiglu : public torch::autograd::Function<Swiglu> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate, const at::Tensor& up) {
    ctx->save_for_backward({gate, up});
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return swiglu(gate, up);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &grad = grads[0], &gate = saved[0], &up = saved[1];
    if (at::GradMode::is_enabled()) {
      // The graph of a second derivative consists of operators that have one.
      const at::Tensor sigmoid = gate.sigmoid();
      const at::Tensor slope = sigmoid.mul(gate.mul(sigmoid.neg().add(1)).add(1));
      return {grad.mul(up).mul(slope), swiglu(gate, grad)};
    }
    auto [grad_gate, grad_up] = swiglu_backward(grad, gate, up);
    return {std::move(grad_gate), std::move(grad_up)};
  }
};

// A rotation by the angle, or by its negative.
template <bool inverse>
class Rotation : public torch::autograd::Function<Rotation<inverse>> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
    ctx->save_for_backward({cos, sin});
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return inverse ? rotary_backward(x, cos, sin) : rotary(x, cos, sin);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    at::Tensor grad = inverse ? rotary(grads[0], saved[0], saved[1]) : rotary_backward(grads[0], saved[0], saved[1]);
    return {std::move(grad), at::Tensor(), at::Tensor()};
  }
};

at::Tensor swiglu_autograd(const at::Tensor& gate, const at::Tensor& up) { return Swiglu::apply(gate, up); }

template <bool inverse>
at::Tensor rotary_autograd(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  TORCH_CHECK_NOT_IMPLEMENTED(!at::GradMode::is_enabled() || (!cos.requires_grad() && !sin.requires_grad()),
                              "rustdev::rotary has no gradient for its angles: detach cos and sin");
  return Rotation<inverse>::apply(x, cos, sin);
}

at::Tensor geglu(const at::Tensor& gate, const at::Tensor& up) { return at::gelu(gate).mul(up); }

}  // namespace

TORCH_LIBRARY_IMPL(rustdev, CompositeImplicitAutograd, m) { m.impl("geglu", TORCH_FN(geglu)); }

TORCH_LIBRARY_IMPL(rustdev, AutogradPrivateUse1, m) {
  m.impl("swiglu", TORCH_FN(swiglu_autograd));
  m.impl("swiglu_backward", torch::autograd::autogradNotImplementedFallback());
  m.impl("rotary", TORCH_FN(rotary_autograd<false>));
  m.impl("rotary_backward", TORCH_FN(rotary_autograd<true>));
  m.impl("residual_add", torch::autograd::autogradNotImplementedFallback());
  m.impl("residual_add_", torch::autograd::autogradNotImplementedFallback());
}

TORCH_LIBRARY_IMPL(rustdev, ADInplaceOrView, m) {
  m.impl("residual_add_", torch::autograd::autogradNotImplementedInplaceOrViewFallback());
}

}  // namespace rustdev
