// What the operators of the namespace `rustdev` do under autocast and functionalization.
//
// Autocast: swiglu and residual_add compute in the widest dtype of their operands, as ATen's pointwise operators of several tensors
// do; rotary keeps the dtype of its vectors and takes the angles, which models keep in float32, down to it.
// Functionalize: PyTorch's fallback serves every operator without aliases; the in-place residual_add_ is replaced by the functional
// one and an update of its argument.
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "ops/custom.h"

namespace rustdev {
namespace {

constexpr auto autocast_device = c10::DeviceType::PrivateUse1;

class BelowAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard_{c10::DispatchKey::AutocastPrivateUse1};
};

template <class... Tensors>
at::ScalarType widest(const Tensors&... tensors) {
  return at::autocast::promote_type(at::autocast::get_lower_precision_fp_from_device_type(autocast_device), autocast_device,
                                    tensors...);
}

at::Tensor cast(at::ScalarType dtype, const at::Tensor& tensor) {
  return at::autocast::cached_cast(dtype, tensor, autocast_device);
}

at::Tensor swiglu_autocast(const at::Tensor& gate, const at::Tensor& up) {
  const BelowAutocast below;
  const auto dtype = widest(gate, up);
  return swiglu(cast(dtype, gate), cast(dtype, up));
}

at::Tensor rotary_autocast(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const BelowAutocast below;
  return rotary(x, cos.to(x.scalar_type()), sin.to(x.scalar_type()));
}

at::Tensor residual_add_autocast(const at::Tensor& residual, const at::Tensor& x, const at::Tensor& bias) {
  const BelowAutocast below;
  const auto dtype = widest(residual, x, bias);
  return residual_add(cast(dtype, residual), cast(dtype, x), cast(dtype, bias));
}

// In place the result's dtype is given.
at::Tensor& residual_add_autocast_(at::Tensor& residual, const at::Tensor& x, const at::Tensor& bias) {
  const BelowAutocast below;
  return residual_add_(residual, x.to(residual.scalar_type()), bias.to(residual.scalar_type()));
}

// The tensor below functionalization, with every update of it done.
at::Tensor unwrapped(const at::Tensor& tensor) {
  namespace functional = at::functionalization::impl;
  if (!functional::isFunctionalTensor(tensor)) {
    return tensor;
  }
  functional::sync(tensor);
  return functional::from_functional_tensor(tensor);
}

at::Tensor& residual_add_functionalized(at::Tensor& residual, const at::Tensor& x, const at::Tensor& bias) {
  namespace functional = at::functionalization::impl;
  const bool wrapped = functional::isFunctionalTensor(residual);
  TORCH_CHECK(wrapped || (!functional::isFunctionalTensor(x) && !functional::isFunctionalTensor(bias)),
              "rustdev::residual_add_: a tensor that is not functional would be changed by functional ones");
  at::Tensor inner = unwrapped(residual);
  const at::Tensor inner_x = unwrapped(x), inner_bias = unwrapped(bias);
  at::Tensor result;
  {
    const at::AutoDispatchSkipFunctionalize below;
    if (!wrapped) {
      residual_add_(inner, inner_x, inner_bias);
      return residual;
    }
    result = residual_add(inner, inner_x, inner_bias);
  }
  functional::replace_(residual, result);
  functional::commit_update(residual);
  functional::sync(residual);
  return residual;
}

}  // namespace

TORCH_LIBRARY_IMPL(rustdev, AutocastPrivateUse1, m) {
  m.impl("swiglu", TORCH_FN(swiglu_autocast));
  m.impl("rotary", TORCH_FN(rotary_autocast));
  m.impl("residual_add", TORCH_FN(residual_add_autocast));
  m.impl("residual_add_", TORCH_FN(residual_add_autocast_));
}

TORCH_LIBRARY_IMPL(rustdev, Functionalize, m) { m.impl("residual_add_", TORCH_FN(residual_add_functionalized)); }

}  // namespace rustdev
