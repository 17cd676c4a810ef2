// Activations, their backwards and pointwise losses: names only, the template of structured.h does the rest.
#include <ATen/ops/elu_backward_meta.h>
#include <ATen/ops/elu_meta.h>
#include <ATen/ops/gelu_backward_meta.h>
#include <ATen/ops/gelu_meta.h>
#include <ATen/ops/glu_meta.h>
#include <ATen/ops/hardshrink_backward_meta.h>
#include <ATen/ops/hardshrink_meta.h>
#include <ATen/ops/hardsigmoid_backward_meta.h>
#include <ATen/ops/hardsigmoid_meta.h>
#include <ATen/ops/leaky_relu_backward_meta.h>
#include <ATen/ops/leaky_relu_meta.h>
#include <ATen/ops/logit_backward_meta.h>
#include <ATen/ops/mish_meta.h>
#include <ATen/ops/mse_loss_meta.h>
#include <ATen/ops/sigmoid_backward_meta.h>
#include <ATen/ops/silu_backward_meta.h>
#include <ATen/ops/silu_meta.h>
#include <ATen/ops/smooth_l1_loss_meta.h>
#include <ATen/ops/softplus_backward_meta.h>
#include <ATen/ops/softplus_meta.h>
#include <ATen/ops/softshrink_backward_meta.h>
#include <ATen/ops/tanh_backward_meta.h>
#include <ATen/ops/threshold_backward_meta.h>
#include <ATen/ops/threshold_meta.h>

#include "structured.h"

namespace rustdev {

#define OP(name, fast) bind<Structured<at::meta::structured_##name, Fast::fast>>(m, {#name, #name "_", #name ".out", #name})
#define PURE(name, fast) bind<Structured<at::meta::structured_##name, Fast::fast>>(m, {#name, nullptr, #name ".out", #name})
#define BACKWARD(name, fast) \
  bind<Structured<at::meta::structured_##name, Fast::fast>>(m, {#name, nullptr, #name ".grad_input", #name})

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  OP(elu, floating);
  OP(gelu, floating);
  OP(hardsigmoid, floating);
  OP(leaky_relu, floating);
  OP(mish, floating);
  OP(silu, floating);
  OP(threshold, none);

  // Without an in-place variant.
  PURE(glu, none);
  PURE(hardshrink, floating);
  PURE(softplus, floating);

  // Gradients.
  BACKWARD(elu_backward, none);
  BACKWARD(gelu_backward, floating);
  BACKWARD(hardshrink_backward, floating);
  BACKWARD(hardsigmoid_backward, floating);
  BACKWARD(leaky_relu_backward, none);
  BACKWARD(logit_backward, none);
  BACKWARD(sigmoid_backward, floating);
  BACKWARD(silu_backward, floating);
  BACKWARD(softplus_backward, floating);
  BACKWARD(softshrink_backward, floating);
  BACKWARD(tanh_backward, floating);
  BACKWARD(threshold_backward, floating);

  // Names of their own.
  bind<Structured<at::meta::structured_mse_loss, Fast::none, Scalars::loss>>(m, {"mse_loss", nullptr, "mse_loss.out", "mse_loss"});
  bind<Structured<at::meta::structured_smooth_l1_loss, Fast::none, Scalars::loss>>(
      m, {"smooth_l1_loss", nullptr, "smooth_l1_loss.out", "smooth_l1_loss"});
}

#undef OP
#undef PURE
#undef BACKWARD

}  // namespace rustdev
