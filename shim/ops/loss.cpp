// log_sigmoid and binary_cross_entropy, whose functions in PyTorch are for the CPU only: the iterator is built here. The kernels
// take every dtype that the CPU's take.
#include <ATen/TensorIterator.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>

#include "ops/factory.h"
#include "structured.h"

namespace rustdev {
namespace {

using Weight = std::optional<at::Tensor>;

const Binding& log_sigmoid_binding() {
  const Binding& binding = binding_of<"log_sigmoid_forward">;
  return binding;
}

at::Tensor run_log_sigmoid(at::Tensor output, const at::Tensor& self) {
  const auto iter = at::TensorIterator::unary_op(output, self);
  Launch launch;
  run_named("log_sigmoid_forward", log_sigmoid_binding(), iter, launch);
  return iter.output();
}

// The buffer is for the CPU's own backward; as on other accelerators it stays empty.
std::tuple<at::Tensor, at::Tensor> log_sigmoid(const at::Tensor& self) {
  Launch launch;
  at::Tensor output = launch_plain(Fast::floating, log_sigmoid_binding(), self, {}, false, launch);
  if (C10_UNLIKELY(!output.defined())) {
    output = run_log_sigmoid({}, self);
  }
  return {output, new_empty({0}, self.scalar_type(), self.device())};
}

std::tuple<at::Tensor&, at::Tensor&> log_sigmoid_out(const at::Tensor& self, at::Tensor& output, at::Tensor& buffer) {
  run_log_sigmoid(output, self);
  return {output, buffer};
}

at::Tensor& log_sigmoid_backward_out(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& /*buffer*/,
                                     at::Tensor& result) {
  const Binding& binding = binding_of<"log_sigmoid_backward">;
  Launch launch;
  auto config = at::TensorIteratorConfig();
  run_named("log_sigmoid_backward", binding, config.add_output(result).add_const_input(self).add_const_input(grad).build(), launch);
  return result;
}

at::Tensor log_sigmoid_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& buffer) {
  at::Tensor result = at::empty_like(grad);
  return log_sigmoid_backward_out(grad, self, buffer, result);
}

void weigh(at::Tensor& result, const Weight& weight) {
  if (weight && weight->defined()) {
    result.mul_(*weight);
  }
}

void run_entropy(at::Tensor& loss, const at::Tensor& self, const at::Tensor& target) {
  const Binding& binding = binding_of<"binary_cross_entropy">;
  Launch launch;
  auto config = at::TensorIteratorConfig();
  run_named("binary_cross_entropy", binding, config.add_output(loss).add_const_input(self).add_const_input(target).build(), launch);
}

at::Tensor entropy(const at::Tensor& self, const at::Tensor& target, const Weight& weight, int64_t reduction) {
  at::Tensor loss = at::empty_like(self);
  run_entropy(loss, self, target);
  weigh(loss, weight);
  return reduction == at::Reduction::None ? loss : reduction == at::Reduction::Mean ? loss.mean() : loss.sum();
}

at::Tensor& entropy_out(const at::Tensor& self, const at::Tensor& target, const Weight& weight, int64_t reduction,
                        at::Tensor& out) {
  if (reduction == at::Reduction::None) {
    run_entropy(out, self, target);
    weigh(out, weight);
    return out;
  }
  const at::Tensor loss = entropy(self, target, weight, at::Reduction::None);
  return reduction == at::Reduction::Mean ? at::mean_out(out, loss, at::OptionalIntArrayRef())
                                          : at::sum_out(out, loss, at::OptionalIntArrayRef());
}

at::Tensor& entropy_backward_out(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target, const Weight& weight,
                                 int64_t reduction, at::Tensor& result) {
  const Binding& binding = binding_of<"binary_cross_entropy_backward">;
  Launch launch;
  auto config = at::TensorIteratorConfig();
  config.add_output(result).add_const_input(grad).add_const_input(self).add_const_input(target);
  run_named("binary_cross_entropy_backward", binding, config.build(), launch);
  weigh(result, weight);
  return reduction == at::Reduction::Mean ? result.div_(self.numel()) : result;
}

at::Tensor entropy_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target, const Weight& weight,
                            int64_t reduction) {
  at::Tensor result = at::empty_like(self);
  return entropy_backward_out(grad, self, target, weight, reduction, result);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("binary_cross_entropy", TORCH_FN(entropy));
  m.impl("binary_cross_entropy.out", TORCH_FN(entropy_out));
  m.impl("binary_cross_entropy_backward", TORCH_FN(entropy_backward));
  m.impl("binary_cross_entropy_backward.grad_input", TORCH_FN(entropy_backward_out));
  m.impl("log_sigmoid_backward", TORCH_FN(log_sigmoid_backward));
  m.impl("log_sigmoid_backward.grad_input", TORCH_FN(log_sigmoid_backward_out));
  m.impl("log_sigmoid_forward", TORCH_FN(log_sigmoid));
  m.impl("log_sigmoid_forward.output", TORCH_FN(log_sigmoid_out));
}

}  // namespace rustdev
