// Operators of torch.nn.SyncBatchNorm, composed of other operators: each process reduces its own samples, statistics are gathered,
// and every element is normalised with the statistics of all. PyTorch has them for CUDA only.
//
// Channels are dimension 1; statistics are of float32 for float16 and bfloat16 samples, as on CUDA.
#include <ATen/OpMathType.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <torch/library.h>

#include "ops/tier.h"

namespace rustdev {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// The tensor, undefined where there is none.
Tensor tensor_or_none(const OptionalTensor& tensor) { return tensor.value_or(Tensor()); }

Tensor widened(const Tensor& tensor) { return tensor.to(at::toOpMathType(tensor.scalar_type())); }

void check_channels(const Tensor& input) {
  TORCH_CHECK(input.dim() >= 2, "batch norm: expected at least 2 dimensions, got ", input.dim());
}

// Every dimension but the channels'.
at::DimVector reduced(const Tensor& input) {
  check_channels(input);
  at::DimVector dims;
  for (int64_t dim = 0; dim < input.dim(); ++dim) {
    if (dim != 1) {
      dims.push_back(dim);
    }
  }
  return dims;
}

// A value per channel, so that it broadcasts over `input`.
Tensor channels(const Tensor& values, const Tensor& input) {
  check_channels(input);
  at::DimVector sizes(input.dim(), 1);
  sizes[1] = -1;
  return values.view(sizes);
}

std::tuple<Tensor, Tensor> stats(const Tensor& input, double eps) {
  const Tensor wide = widened(input);
  const auto dims = reduced(input);
  const Tensor mean = wide.mean(dims);
  const Tensor variance = wide.sub(channels(mean, input)).square_().mean(dims);
  return {mean, variance.add_(eps).rsqrt_()};
}

Tensor elemt(const Tensor& input, const OptionalTensor& given_weight, const OptionalTensor& given_bias, const Tensor& mean,
             const Tensor& invstd, double) {
  const Tensor weight = tensor_or_none(given_weight), bias = tensor_or_none(given_bias);
  Tensor out = widened(input).sub(channels(mean, input)).mul_(channels(invstd, input));
  if (weight.defined()) {
    out.mul_(channels(weight, input));
  }
  if (bias.defined()) {
    out.add_(channels(bias, input));
  }
  return out.to(input.scalar_type());
}

Tensor& elemt_out(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, const Tensor& mean,
                  const Tensor& invstd, double eps, Tensor& out) {
  const Tensor result = elemt(input, weight, bias, mean, invstd, eps);
  return out.resize_(result.sizes()).copy_(result);
}

// The statistics of all samples, from those of groups of `counts` samples each, one group a row.
std::tuple<Tensor, Tensor> gather_stats_with_counts(const Tensor&, const Tensor& mean, const Tensor& invstd,
                                                    const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                                    double momentum, double eps, const Tensor& counts) {
  const Tensor weights = counts.to(mean.scalar_type()).view({-1, 1});
  const Tensor total = weights.sum();
  const Tensor all_mean = mean.mul(weights).sum(at::IntArrayRef{0}).div_(total);
  const Tensor variances = invstd.square().reciprocal_().sub_(eps);
  const Tensor squares = mean.sub(all_mean).square_().add_(variances).mul_(weights).sum(at::IntArrayRef{0});
  if (Tensor running = tensor_or_none(running_mean); running.defined()) {
    running.mul_(1 - momentum).add_(all_mean, momentum);
  }
  if (Tensor running = tensor_or_none(running_var); running.defined()) {
    running.mul_(1 - momentum).add_(squares.div(total.sub(1)), momentum);
  }
  return {all_mean, squares.div(total).add_(eps).rsqrt_()};
}

std::tuple<Tensor, Tensor> gather_stats(const Tensor& input, const Tensor& mean, const Tensor& invstd,
                                        const OptionalTensor& running_mean, const OptionalTensor& running_var, double momentum,
                                        double eps, int64_t count) {
  const Tensor counts = at::full({mean.size(0)}, count, mean.options());
  return gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward_reduce(const Tensor& grad_out, const Tensor& input, const Tensor& mean,
                                                           const Tensor& invstd, const OptionalTensor& given_weight, bool input_g,
                                                           bool weight_g, bool bias_g) {
  const Tensor weight = tensor_or_none(given_weight);
  const auto dims = reduced(input);
  const Tensor grad = widened(grad_out);
  const Tensor sum_dy = grad.sum(dims);
  const Tensor sum_dy_xmu = widened(input).sub(channels(mean, input)).mul_(grad).sum(dims);
  const auto dtype = weight.defined() ? weight.scalar_type() : input.scalar_type();
  return {input_g ? sum_dy : Tensor(), input_g ? sum_dy_xmu : Tensor(), weight_g ? sum_dy_xmu.mul(invstd).to(dtype) : Tensor(),
          bias_g ? sum_dy.to(dtype, /*non_blocking=*/false, /*copy=*/true) : Tensor()};
}

Tensor backward_elemt(const Tensor& grad_out, const Tensor& input, const Tensor& mean, const Tensor& invstd,
                      const OptionalTensor& given_weight, const Tensor& sum_dy, const Tensor& sum_dy_xmu, const Tensor& count) {
  const Tensor weight = tensor_or_none(given_weight);
  const Tensor total = count.sum().to(mean.scalar_type());
  const Tensor slope = sum_dy_xmu.div(total).mul_(invstd.square());
  const Tensor centred = widened(input).sub(channels(mean, input)).mul_(channels(slope, input));
  Tensor result = widened(grad_out).sub(channels(sum_dy.div(total), input)).sub_(centred).mul_(channels(invstd, input));
  if (weight.defined()) {
    result.mul_(channels(weight, input));
  }
  return result.to(input.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  Tier aten(m, "composite");
  aten.impl("batch_norm_stats", TORCH_FN(stats));
  aten.impl("batch_norm_elemt", TORCH_FN(elemt));
  aten.impl("batch_norm_elemt.out", TORCH_FN(elemt_out));
  aten.impl("batch_norm_gather_stats", TORCH_FN(gather_stats));
  aten.impl("batch_norm_gather_stats_with_counts", TORCH_FN(gather_stats_with_counts));
  aten.impl("batch_norm_backward_reduce", TORCH_FN(backward_reduce));
  aten.impl("batch_norm_backward_elemt", TORCH_FN(backward_elemt));
}

}  // namespace rustdev
