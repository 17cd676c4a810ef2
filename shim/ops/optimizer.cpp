// Fused optimizers: one launch takes the step of all parameters. Step counts, learning rates given as tensors, the scale of
// gradients and whether they overflowed are read on the device when the step runs.
#include <ATen/native/ForeachUtils.h>
#include <torch/library.h>

#include <array>

#include "lists.h"

namespace rustdev {
namespace {

using OptionalTensor = const std::optional<at::Tensor>&;

// What a step works on.
struct Step {
  const char* name;
  // Parameters, states, gradients.
  c10::SmallVector<at::TensorList, 5> lists;
  at::TensorList counts;
  // Each may be undefined.
  at::Tensor rate, grad_scale, found_inf;
  c10::SmallVector<at::Scalar, 8> settings;
};

// The learning rate that a tensor on the CPU holds, or 0 for one that the kernel reads.
double rate_of(const at::Tensor& rate) { return rate.is_cpu() ? rate.item<double>() : 0.0; }

at::Tensor device_rate(const at::Tensor& rate) { return rate.is_cpu() ? at::Tensor() : rate; }

// A number that may be kept elsewhere, on the parameters' device.
at::Tensor near(const at::Tensor& tensor, at::Device device) {
  return !tensor.defined() || tensor.device() == device ? tensor : tensor.to(device, /*non_blocking=*/true);
}

void check_step(const Step& step) {
  const size_t tensors = step.lists[0].size();
  for (const at::TensorList list : step.lists) {
    TORCH_CHECK(list.size() == tensors, step.name, ": expected lists of ", tensors, " tensors, but found one of ", list.size());
  }
  TORCH_CHECK(step.counts.empty() || step.counts.size() == tensors, step.name, ": expected ", tensors, " state_steps, but found ",
              step.counts.size());
  TORCH_CHECK(on_device(step.lists[0][0]) && at::native::check_fast_path_restrictions(step.lists), step.name,
              ": parameters, gradients and states must be dense and have the same dtype, device, sizes and strides");
  for (size_t list = 1; list < step.lists.size(); ++list) {
    for (size_t other = 0; other < list; ++other) {
      for (size_t place = 0; place < tensors; ++place) {
        TORCH_CHECK(!overlap_in_part(step.lists[list][place], step.lists[other][place]), step.name,
                    ": some elements of one tensor are other elements of another. Please clone() one of them first.");
      }
    }
  }
}

void launch_part(const rd_op* op, const Step& step, size_t begin, size_t count) {
  const at::Tensor& parameter = step.lists[0][0];
  const at::Device device = parameter.device();
  ListLaunch launch((step.lists.size() + 1) * count + 3, count);
  for (size_t list = 0; list < step.lists.size(); ++list) {
    // Gradients, the last list, are written only where they are unscaled.
    if (list + 1 == step.lists.size() && !step.grad_scale.defined()) {
      launch.finish_outputs();
    }
    launch.list(step.lists[list].slice(begin, count));
  }
  if (step.grad_scale.defined()) {
    launch.finish_outputs();
  }
  // What was copied here lives until the kernel has its task: memory is reused in the stream's order.
  c10::SmallVector<at::Tensor, 4> copies;
  const auto add = [&](const at::Tensor& tensor) {
    copies.push_back(near(tensor, device));
    launch.single(copies.back());
  };
  for (const at::Tensor& steps : step.counts.empty() ? step.counts : step.counts.slice(begin, count)) {
    add(steps);
  }
  for (const at::Tensor* single : {&step.rate, &step.grad_scale, &step.found_inf}) {
    launch.scalar(single->defined());
    if (single->defined()) {
      add(*single);
    }
  }
  for (const at::Scalar& setting : step.settings) {
    launch.scalar(setting);
  }
  launch.run(op, parameter.scalar_type(), device);
}

void take_step(const rd_op* op, const Step& step) {
  const size_t tensors = step.lists[0].size();
  if (tensors == 0) {
    return;
  }
  check_step(step);
  for_each_launch(tensors, [&](size_t begin, size_t count) { launch_part(op, step, begin, count); });
}

template <bool decoupled>
struct Adam {
  static constexpr const char* name = decoupled ? "_fused_adamw_" : "_fused_adam_";
  static inline const rd_op* op;

  static void call(at::TensorList self, at::TensorList grads, at::TensorList exp_avgs, at::TensorList exp_avg_sqs,
                   at::TensorList max_exp_avg_sqs, at::TensorList state_steps, double lr, double beta1, double beta2,
                   double weight_decay, double eps, bool amsgrad, bool maximize, OptionalTensor grad_scale,
                   OptionalTensor found_inf) {
    take(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, {}, lr, beta1, beta2, weight_decay, eps, amsgrad,
         maximize, grad_scale, found_inf);
  }

  static void call_tensor_lr(at::TensorList self, at::TensorList grads, at::TensorList exp_avgs, at::TensorList exp_avg_sqs,
                             at::TensorList max_exp_avg_sqs, at::TensorList state_steps, const at::Tensor& lr, double beta1,
                             double beta2, double weight_decay, double eps, bool amsgrad, bool maximize, OptionalTensor grad_scale,
                             OptionalTensor found_inf) {
    take(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, device_rate(lr), rate_of(lr), beta1, beta2, weight_decay,
         eps, amsgrad, maximize, grad_scale, found_inf);
  }

 private:
  static void take(at::TensorList self, at::TensorList grads, at::TensorList exp_avgs, at::TensorList exp_avg_sqs,
                   at::TensorList max_exp_avg_sqs, at::TensorList state_steps, const at::Tensor& rate, double lr, double beta1,
                   double beta2, double weight_decay, double eps, bool amsgrad, bool maximize, OptionalTensor grad_scale,
                   OptionalTensor found_inf) {
    Step step{name, {self, exp_avgs, exp_avg_sqs}, state_steps, rate, given(grad_scale), given(found_inf), {}};
    if (amsgrad) {
      step.lists.push_back(max_exp_avg_sqs);
    }
    step.lists.push_back(grads);
    step.settings = {lr, beta1, beta2, weight_decay, eps, amsgrad, maximize};
    take_step(op, step);
  }
};

struct Sgd {
  static constexpr const char* name = "_fused_sgd_";
  static inline const rd_op* op;

  static void call(at::TensorList self, at::TensorList grads, at::TensorList momentum_buffer_list, double weight_decay,
                   double momentum, double lr, double dampening, bool nesterov, bool maximize, bool is_first_step,
                   OptionalTensor grad_scale, OptionalTensor found_inf) {
    take(self, grads, momentum_buffer_list, weight_decay, momentum, {}, lr, dampening, nesterov, maximize, is_first_step,
         grad_scale, found_inf);
  }

  static void call_tensor_lr(at::TensorList self, at::TensorList grads, at::TensorList momentum_buffer_list, double weight_decay,
                             double momentum, const at::Tensor& lr, double dampening, bool nesterov, bool maximize,
                             bool is_first_step, OptionalTensor grad_scale, OptionalTensor found_inf) {
    take(self, grads, momentum_buffer_list, weight_decay, momentum, device_rate(lr), rate_of(lr), dampening, nesterov, maximize,
         is_first_step, grad_scale, found_inf);
  }

 private:
  static void take(at::TensorList self, at::TensorList grads, at::TensorList momentum_buffer_list, double weight_decay,
                   double momentum, const at::Tensor& rate, double lr, double dampening, bool nesterov, bool maximize,
                   bool is_first_step, OptionalTensor grad_scale, OptionalTensor found_inf) {
    Step step{name, {self}, {}, rate, given(grad_scale), given(found_inf), {}};
    if (momentum != 0) {
      step.lists.push_back(momentum_buffer_list);
    }
    step.lists.push_back(grads);
    step.settings = {weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step};
    take_step(op, step);
  }
};

struct Adagrad {
  static constexpr const char* name = "_fused_adagrad_";
  static inline const rd_op* op;

  static void call(at::TensorList self, at::TensorList grads, at::TensorList state_sums, at::TensorList state_steps, double lr,
                   double lr_decay, double weight_decay, double eps, bool maximize, OptionalTensor grad_scale,
                   OptionalTensor found_inf) {
    take_step(op, {name,
                   {self, state_sums, grads},
                   state_steps,
                   {},
                   given(grad_scale),
                   given(found_inf),
                   {lr, lr_decay, weight_decay, eps, maximize}});
  }

  static void call_tensor_lr(at::TensorList self, at::TensorList grads, at::TensorList state_sums, at::TensorList state_steps,
                             const at::Tensor& lr, double lr_decay, double weight_decay, double eps, bool maximize,
                             OptionalTensor grad_scale, OptionalTensor found_inf) {
    take_step(op, {name,
                   {self, state_sums, grads},
                   state_steps,
                   device_rate(lr),
                   given(grad_scale),
                   given(found_inf),
                   {rate_of(lr), lr_decay, weight_decay, eps, maximize}});
  }
};

// Binds both overloads of an optimizer to its kernel.
template <class Optimizer>
void bind_optimizer(torch::Library& library) {
  Optimizer::op = kernel(Optimizer::name);
  library.impl(Optimizer::name, TORCH_FN(Optimizer::call));
  library.impl((std::string(Optimizer::name) + ".tensor_lr").c_str(), TORCH_FN(Optimizer::call_tensor_lr));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  bind_optimizer<Adam<false>>(m);
  bind_optimizer<Adam<true>>(m);
  bind_optimizer<Sgd>(m);
  bind_optimizer<Adagrad>(m);
}

}  // namespace rustdev
