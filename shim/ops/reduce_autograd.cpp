// Gradients of max, min, median and nanmedian of a whole tensor while a stream captures.
//
// PyTorch's formula reads on the host whether the result is NaN, which a capture refuses. This one uses a mask, as PyTorch's does
// for CUDA. Outside of captures PyTorch's formula runs: it supports forward derivatives and functorch.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/max.h>
#include <ATen/ops/median.h>
#include <ATen/ops/min.h>
#include <ATen/ops/nanmedian.h>
#include <ATen/ops/where.h>
#include <torch/csrc/autograd/custom_function.h>

#include "rustdev.h"

namespace rustdev {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Elements equal to the result share the gradient evenly. `Operator`: of at::_ops.
template <class Operator>
class Selection : public torch::autograd::Function<Selection<Operator>> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& self) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    at::Tensor result = Operator::call(self);
    ctx->save_for_backward({self, result});
    return result;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &self = saved[0], &value = saved[1], &grad = grads[0];
    const at::Tensor mask = self.eq(value).logical_or(self.isnan().logical_and(value.isnan()));
    return {at::where(mask, grad.div(mask.sum()), grad.new_zeros({}))};
  }
};

bool is_capturing(const at::Tensor& self) {
  const int32_t device = self.device().index();
  return rd_stream_is_capturing(device, rd_stream_current(device));
}

template <class Operator>
at::Tensor select(c10::DispatchKeySet keys, const at::Tensor& self) {
  if (at::GradMode::is_enabled() && self.requires_grad() && C10_UNLIKELY(is_capturing(self))) {
    return Selection<Operator>::apply(self);
  }
  // PyTorch's autograd kernel, the same for each of autograd's keys. Under a Python dispatcher, as in compilation, `keys` are those
  // of a new call, so keys above autograd are masked out.
  const c10::DispatchKeySet below(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::AutogradOther);
  return Operator::redispatch((keys & below) | c10::DispatchKeySet(c10::DispatchKey::AutogradOther), self);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("max", TORCH_FN(select<at::_ops::max>));
  m.impl("min", TORCH_FN(select<at::_ops::min>));
  m.impl("median", TORCH_FN(select<at::_ops::median>));
  m.impl("nanmedian", TORCH_FN(select<at::_ops::nanmedian>));
}

}  // namespace rustdev
