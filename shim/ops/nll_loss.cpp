// Negative log likelihood loss, of rows and of images. Arguments that do not match go to the CPU's function, which raises the
// error.
#include "ops/factory.h"
#include "ops/lines.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/nll_loss_backward_meta.h>
#include <ATen/ops/nll_loss_forward_meta.h>

namespace rustdev {
namespace {

using Weight = const std::optional<at::Tensor>&;
using Pair = std::tuple<at::Tensor, at::Tensor>;
using PairOut = std::tuple<at::Tensor&, at::Tensor&>;

// Whether a kernel takes the dtypes of a call.
bool takes(const Binding& binding, const at::Tensor& self, const at::Tensor& target, Weight weight) {
  const bool targets = target.scalar_type() == at::kLong || (target.scalar_type() == at::kByte && self.dim() <= 2);
  const at::Tensor given_weight = given(weight);
  const bool weights =
      !given_weight.defined() || (given_weight.scalar_type() == self.scalar_type() && given_weight.device() == self.device());
  return takes_dtype(binding, self.scalar_type()) && targets && weights && target.device() == self.device();
}

// Whether images, targets and weights fit together.
bool are_images(const at::Tensor& self, const at::Tensor& target, Weight weight) {
  const at::Tensor given_weight = given(weight);
  return self.dim() == 4 && target.dim() == 3 && self.size(0) == target.size(0) && self.size(2) == target.size(1) &&
         self.size(3) == target.size(2) && (!given_weight.defined() || given_weight.numel() == self.size(1));
}

// Rows as images of one place each.
at::Tensor as_images(const at::Tensor& self) {
  return self.dim() == 4 ? self : self.view({self.dim() == 1 ? 1 : self.size(0), self.size(-1), 1, 1});
}

void launch_forward(const Binding& binding, const at::Tensor& output, const at::Tensor& total, const at::Tensor& self,
                    const at::Tensor& target, Weight weight, int64_t reduction, int64_t ignored) {
  const at::Tensor images = as_images(self.dim() == 4 ? self : self.contiguous());
  const at::Tensor targets = target.contiguous().view({images.size(0), images.size(2), images.size(3)});
  const at::Tensor losses = reduction == at::Reduction::None && self.dim() > 1 ? output.view(targets.sizes()) : output;
  const at::Tensor weights = dense_given(weight);
  const at::Tensor* const inputs[] = {&images, &targets, &weights};
  // The loss of one row without a batch is a sum with its weight.
  const int64_t summed = self.dim() == 1 && reduction == at::Reduction::None ? at::Reduction::Sum : reduction;
  launch_shaped_or_throw(binding, self.scalar_type(), {&losses, &total}, inputs,
                         scalars_of<"nll_loss_forward", "reduction, ignored, has_weight">(summed, ignored, weights.defined()));
}

void launch_backward(const Binding& binding, const at::Tensor& grad_input, const at::Tensor& grad, const at::Tensor& self,
                     const at::Tensor& target, Weight weight, int64_t reduction, int64_t ignored, const at::Tensor& total) {
  const at::Tensor images = as_images(grad_input);
  const int64_t positions = images.size(2) * images.size(3);
  const at::Tensor rows = images.view({images.size(0), images.size(1) * positions});
  const at::Tensor targets = target.contiguous().view({images.size(0), positions});
  const at::Tensor grads = grad.contiguous();
  const at::Tensor weights = dense_given(weight);
  const at::Tensor* const inputs[] = {&grads, &targets, &total, &weights};
  launch_shaped_or_throw(binding, self.scalar_type(), {&rows}, inputs,
                         scalars_of<"nll_loss_backward", "reduction, ignored, has_weight, classes">(
                             reduction, ignored, weights.defined(), images.size(1)));
}

struct NllLossRule {
  template <class Op>
  static bool launch(const Binding& binding, Op& op, const at::Tensor& self, const at::Tensor& target, Weight weight,
                     int64_t reduction, int64_t ignored) {
    if (!takes(binding, self, target, weight)) {
      return false;
    }
    launch_forward(binding, op.maybe_get_output(0), op.maybe_get_output(1), self, target, weight, reduction, ignored);
    return true;
  }
};

struct NllLossBackward {
  using Meta = at::meta::structured_nll_loss_backward;
  static inline Binding binding;

  static at::Tensor functional(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target, Weight weight,
                               int64_t reduction, int64_t ignored, const at::Tensor& total) {
    Functional<Meta> op;
    op.meta(grad, self, target, meta_argument(weight), reduction, ignored, total);
    if (!takes(binding, self, target, weight)) {
      return call_fallback<at::Tensor, const at::Tensor&, const at::Tensor&, const at::Tensor&, Weight, int64_t, int64_t,
                           const at::Tensor&>(binding.functional, grad, self, target, weight, reduction, ignored, total);
    }
    launch_backward(binding, op.maybe_get_output(0), grad, self, target, weight, reduction, ignored, total);
    return op.take(0);
  }

  static at::Tensor& out(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target, Weight weight, int64_t reduction,
                         int64_t ignored, const at::Tensor& total, at::Tensor& grad_input) {
    const at::Tensor result = functional(grad, self, target, weight, reduction, ignored, total);
    resize_out(grad_input, result.sizes(), {}, result.options());
    return grad_input.copy_(result);
  }
};

struct NllLoss2d {
  static inline Binding binding;

  static Pair functional(const at::Tensor& self, const at::Tensor& target, Weight weight, int64_t reduction, int64_t ignored) {
    if (!takes(binding, self, target, weight) || !are_images(self, target, weight)) {
      return call_fallback<Pair, const at::Tensor&, const at::Tensor&, Weight, int64_t, int64_t>(binding.functional, self, target,
                                                                                                 weight, reduction, ignored);
    }
    const at::IntArrayRef sizes = reduction == at::Reduction::None ? target.sizes() : at::IntArrayRef();
    const at::Tensor output = new_empty(sizes, self.scalar_type(), self.device());
    const at::Tensor total = new_empty({}, self.scalar_type(), self.device());
    launch_forward(binding, output, total, self, target, weight, reduction, ignored);
    return {output, total};
  }

  static PairOut out(const at::Tensor& self, const at::Tensor& target, Weight weight, int64_t reduction, int64_t ignored,
                     at::Tensor& output, at::Tensor& total) {
    const auto [losses, weights] = functional(self, target, weight, reduction, ignored);
    resize_out(output, losses.sizes(), {}, losses.options());
    resize_out(total, weights.sizes(), {}, weights.options());
    output.copy_(losses);
    total.copy_(weights);
    return {output, total};
  }
};

struct NllLoss2dBackward {
  static inline Binding binding;

  static at::Tensor functional(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target, Weight weight,
                               int64_t reduction, int64_t ignored, const at::Tensor& total) {
    const bool grads = reduction == at::Reduction::None ? grad.sizes() == target.sizes() : grad.dim() <= 1 && grad.numel() == 1;
    if (!takes(binding, self, target, weight) || !are_images(self, target, weight) || !grads || total.numel() != 1) {
      return call_fallback<at::Tensor, const at::Tensor&, const at::Tensor&, const at::Tensor&, Weight, int64_t, int64_t,
                           const at::Tensor&>(binding.functional, grad, self, target, weight, reduction, ignored, total);
    }
    at::Tensor grad_input = new_empty(self.sizes(), self.scalar_type(), self.device());
    launch_backward(binding, grad_input, grad, self, target, weight, reduction, ignored, total);
    return grad_input;
  }

  static at::Tensor& out(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target, Weight weight, int64_t reduction,
                         int64_t ignored, const at::Tensor& total, at::Tensor& grad_input) {
    const at::Tensor result = functional(grad, self, target, weight, reduction, ignored, total);
    resize_out(grad_input, result.sizes(), {}, result.options());
    return grad_input.copy_(result);
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  bind<Variants<at::meta::structured_nll_loss_forward, NllLossRule, 2>>(
      m, {"nll_loss_forward", nullptr, "nll_loss_forward.output", "nll_loss_forward"});
  bind<NllLoss2d>(m, {"nll_loss2d_forward", nullptr, "nll_loss2d_forward.output", "nll_loss_forward"});
  bind<NllLossBackward>(m, {"nll_loss_backward", nullptr, "nll_loss_backward.grad_input", "nll_loss_backward"});
  bind<NllLoss2dBackward>(m, {"nll_loss2d_backward", nullptr, "nll_loss2d_backward.grad_input", "nll_loss_backward"});
}

}  // namespace rustdev
