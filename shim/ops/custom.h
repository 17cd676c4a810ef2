// The operators of the namespace `rustdev` as calls through the dispatcher, for the kernels of its autograd, autocast and
// functionalization.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace rustdev {

// silu(gate) * up; both have the same sizes.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

// The gradients of gate and up.
std::tuple<at::Tensor, at::Tensor> swiglu_backward(const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up);

// Rotary embedding: turns each pair (x[i], x[i + d/2]) of the last dimension by the angle whose cosine and sine are given, which
// broadcast over the other dimensions.
at::Tensor rotary(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

// The gradient of x: the same by the negative angle.
at::Tensor rotary_backward(const at::Tensor& grad, const at::Tensor& cos, const at::Tensor& sin);

// residual + (x + bias), for inference; x and bias broadcast to the sizes of residual.
at::Tensor residual_add(const at::Tensor& residual, const at::Tensor& x, const at::Tensor& bias);
at::Tensor& residual_add_(at::Tensor& residual, const at::Tensor& x, const at::Tensor& bias);

}  // namespace rustdev
