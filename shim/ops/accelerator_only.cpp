// Operators that PyTorch has for some accelerators but not for the CPU, so that they cannot fall back: composed of other operators.
#include <ATen/OpMathType.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <torch/library.h>

#include "ops/tier.h"

namespace rustdev {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

Tensor widened(const Tensor& tensor) { return tensor.to(at::toOpMathType(tensor.scalar_type())); }

// With y = x * rstd: dx = rstd * (g - y * mean(g * y)) where g = dout * weight, and dweight the sum of dout * y over the samples.
std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& grad_out, const Tensor& input, at::IntArrayRef normalized_shape,
                                             const Tensor& rstd, const OptionalTensor& given_weight,
                                             std::array<bool, 2> output_mask) {
  const Tensor weight = given_weight.value_or(Tensor());
  const int64_t outer = input.dim() - static_cast<int64_t>(normalized_shape.size());
  at::DimVector inner_dims, outer_dims;
  for (int64_t dim = 0; dim < input.dim(); ++dim) {
    (dim < outer ? outer_dims : inner_dims).push_back(dim);
  }
  const Tensor grad = widened(grad_out);
  const Tensor scale = widened(rstd);
  const Tensor y = widened(input).mul(scale);
  Tensor grad_input, grad_weight;
  if (output_mask[0]) {
    const Tensor g = weight.defined() ? grad.mul(weight) : grad;
    const Tensor along = g.mul(y).mean(inner_dims, /*keepdim=*/true);
    grad_input = g.sub(y.mul(along)).mul_(scale).to(input.scalar_type());
  }
  if (output_mask[1] && weight.defined()) {
    const Tensor product = grad.mul(y);
    grad_weight = (outer == 0 ? product : product.sum(outer_dims)).to(weight.scalar_type());
  }
  return {grad_input, grad_weight};
}

// The gradients of linear, whose weight is [out, in]; samples in any number of leading dimensions.
std::tuple<Tensor, Tensor, Tensor> linear_backward(const Tensor& self, const Tensor& grad_output, const Tensor& weight,
                                                   std::array<bool, 3> output_mask) {
  const Tensor grad = grad_output.reshape({-1, weight.size(0)});
  Tensor grad_self, grad_weight, grad_bias;
  if (output_mask[0]) {
    grad_self = grad.mm(weight).view(self.sizes());
  }
  if (output_mask[1]) {
    grad_weight = grad.t().mm(self.reshape({-1, weight.size(1)}));
  }
  if (output_mask[2]) {
    grad_bias = grad.sum(at::IntArrayRef{0});
  }
  return {grad_self, grad_weight, grad_bias};
}

// The gradients of matmul, for vectors and for broadcast batches too: a vector is a matrix of one row (left) or column (right).
std::tuple<Tensor, Tensor> matmul_backward(const Tensor& grad, const Tensor& self, const Tensor& other, std::array<bool, 2> mask) {
  if (!grad.defined()) {
    return {};
  }
  const Tensor left = self.dim() == 1 ? self.unsqueeze(0) : self;
  const Tensor right = other.dim() == 1 ? other.unsqueeze(1) : other;
  Tensor wide = other.dim() == 1 ? grad.unsqueeze(-1) : grad;
  wide = self.dim() == 1 ? wide.unsqueeze(-2) : wide;
  Tensor grad_self, grad_other;
  if (mask[0]) {
    grad_self = at::matmul(wide, right.mT()).sum_to_size(left.sizes()).view_as(self);
  }
  if (mask[1]) {
    grad_other = at::matmul(left.mT(), wide).sum_to_size(right.sizes()).view_as(other);
  }
  return {grad_self, grad_other};
}

Tensor conv_depthwise2d(const Tensor& self, const Tensor& weight, at::IntArrayRef, const OptionalTensor& bias,
                        at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation) {
  return at::conv2d(self, weight, bias, stride, padding, dilation, self.size(1));
}

Tensor& conv_depthwise2d_out(const Tensor& self, const Tensor& weight, at::IntArrayRef kernel_size, const OptionalTensor& bias,
                             at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, Tensor& out) {
  const Tensor result = conv_depthwise2d(self, weight, kernel_size, bias, stride, padding, dilation);
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

Tensor conv_depthwise3d(const Tensor& self, const Tensor& weight, at::IntArrayRef, const OptionalTensor& bias,
                        at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation) {
  return at::conv3d(self, weight, bias, stride, padding, dilation, self.size(1));
}

Tensor masked_scale(const Tensor& self, const Tensor& mask, double scale) {
  return self.mul(mask.to(self.scalar_type())).mul_(scale);
}

// `keep` is the probability that an element stays, unlike dropout's.
std::tuple<Tensor, Tensor> fused_dropout(const Tensor& self, double keep, std::optional<at::Generator> generator) {
  const Tensor mask = at::empty_like(self, self.options().dtype(at::kByte)).bernoulli_(keep, std::move(generator));
  return {masked_scale(self, mask, 1 / keep), mask};
}

const Tensor& resize_output(const Tensor& self, at::IntArrayRef size, at::Device device) {
  TORCH_CHECK(self.device() == device, "out Tensor doesn't have the correct device set");
  at::native::resize_output(self, size);
  return self;  // NOLINT(bugprone-return-const-ref-from-parameter): what the schema asks for
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  Tier aten(m, "composite");
  aten.impl("_fused_rms_norm_backward", TORCH_FN(rms_norm_backward));
  aten.impl("linear_backward", TORCH_FN(linear_backward));
  aten.impl("matmul_backward", TORCH_FN(matmul_backward));
  aten.impl("_conv_depthwise2d", TORCH_FN(conv_depthwise2d));
  aten.impl("_conv_depthwise2d.out", TORCH_FN(conv_depthwise2d_out));
  aten.impl("conv_depthwise3d", TORCH_FN(conv_depthwise3d));
  aten.impl("_fused_dropout", TORCH_FN(fused_dropout));
  aten.impl("_masked_scale", TORCH_FN(masked_scale));
  aten.impl("_resize_output_", TORCH_FN(resize_output));
}

}  // namespace rustdev
