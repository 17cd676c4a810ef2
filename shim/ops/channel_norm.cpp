// Batch and group normalisation. The kernels take a row for each plane, or a column for each channel.
#include "ops/factory.h"
#include "ops/lines.h"
#include "same_device.h"

#include <ATen/native/cpu/mixed_data_type.h>
#include <ATen/native/group_norm.h>
#include <ATen/ops/native_group_norm_backward_native.h>
#include <ATen/ops/native_group_norm_native.h>

#include <array>
#include <limits>

namespace rustdev {
namespace {

using OptionalTensor = const std::optional<at::Tensor>&;
using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Quadruple = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using Mask = std::array<bool, 3>;

// Brings what was computed in a dense copy to the tensor itself.
void write_back(const at::Tensor& dense, const at::Tensor& tensor) {
  if (!dense.is_same(tensor)) {
    tensor.copy_(dense);
  }
}

// How samples with channels in dimension 1 lie in memory.
struct Samples {
  explicit Samples(const at::Tensor& input)
      : format(input.suggest_memory_format()),
        channels(input.size(1)),
        columns(format != at::MemoryFormat::Contiguous || input.numel() == input.size(0) * channels) {}

  at::Tensor rows(const at::Tensor& tensor) const {
    const at::Tensor dense = tensor.contiguous(format);
    const int64_t positions = tensor.numel() / (tensor.size(0) * channels);
    return columns ? dense.movedim(1, -1).view({tensor.size(0) * positions, channels})
                   : dense.view({tensor.size(0) * channels, positions});
  }

  at::MemoryFormat format;
  int64_t channels;
  bool columns;
};

// Whether the kernel takes the call. Statistics and weights without an element for each channel are refused: PyTorch's kernels
// would read what lies behind them.
template <class... Tensors>
bool fits(const Binding& binding, const at::Tensor& input, const Tensors&... parameters) {
  if (input.dim() < 2) {
    return false;
  }
  const auto check = [&](const at::Tensor& tensor) {
    TORCH_CHECK(!tensor.defined() || tensor.numel() == input.size(1), "batch norm: expected a value for each of ", input.size(1),
                " channels, got ", tensor.numel());
  };
  (check(parameters), ...);
  const auto is_here = [&](const at::Tensor& tensor) { return !tensor.defined() || tensor.device() == input.device(); };
  return takes_dtype(binding, input.scalar_type()) && input.numel() > 0 && (is_here(parameters) && ...);
}

struct BatchNorm {
  static inline Binding binding;

  // Nothing where the kernel does not take the call.
  static std::optional<Triple> run(const at::Tensor& input, OptionalTensor weight_opt, OptionalTensor bias_opt,
                                   const at::Tensor& running_mean, const at::Tensor& running_var, bool training, double momentum,
                                   double eps) {
    const at::Tensor weight = dense_given(weight_opt), bias = dense_given(bias_opt);
    const bool has_running = running_mean.defined() && running_var.defined();
    TORCH_CHECK(training || has_running, "batch norm: expected running statistics in evaluation");
    if (!fits(binding, input, weight, bias, running_mean, running_var) || running_mean.defined() != running_var.defined()) {
      return std::nullopt;
    }
    const at::Tensor mean = dense_given(running_mean), var = dense_given(running_var);
    const bool mixed = at::native::is_mixed_type(input, weight, bias, mean, var);
    if (mixed) {
      at::native::check_mixed_data_type(input, weight, bias, mean, var);
    }
    const Samples samples(input);
    const at::ScalarType dtype = at::native::param_scalar_type(input, mixed);
    at::Tensor output = new_empty(input.sizes(), input.scalar_type(), input.device(), samples.format);
    const int64_t saved = training ? samples.channels : 0;
    at::Tensor save_mean = new_empty({saved}, dtype, input.device()), save_inverse = new_empty({saved}, dtype, input.device());
    const at::Tensor rows = samples.rows(input), output_rows = samples.rows(output), none;
    const at::Tensor* const inputs[] = {&rows, &weight, &bias};
    launch_shaped_or_throw(
        binding, input.scalar_type(), {&output_rows, training ? &save_mean : &none, training ? &save_inverse : &none, &mean, &var},
        inputs,
        scalars_of<"native_batch_norm", "channels, columns, training, has_running, has_weight, has_bias, momentum, eps">(
            samples.channels, samples.columns, training, has_running, weight.defined(), bias.defined(), momentum, eps));
    if (training && has_running) {
      write_back(mean, running_mean);
      write_back(var, running_var);
    }
    return Triple(std::move(output), std::move(save_mean), std::move(save_inverse));
  }

  static Triple functional(const at::Tensor& input, OptionalTensor weight, OptionalTensor bias, OptionalTensor mean,
                           OptionalTensor var, bool training, double momentum, double eps) {
    if (auto results = run(input, weight, bias, given(mean), given(var), training, momentum, eps)) {
      return *std::move(results);
    }
    return call_fallback<Triple, const at::Tensor&, OptionalTensor, OptionalTensor, OptionalTensor, OptionalTensor, bool, double,
                         double>(binding.functional, input, weight, bias, mean, var, training, momentum, eps);
  }

  static Triple legit(const at::Tensor& input, OptionalTensor weight, OptionalTensor bias, at::Tensor& mean, at::Tensor& var,
                      bool training, double momentum, double eps) {
    return functional(input, weight, bias, mean, var, training, momentum, eps);
  }

  static Triple without_statistics(const at::Tensor& input, OptionalTensor weight, OptionalTensor bias, bool training,
                                   double momentum, double eps) {
    return functional(input, weight, bias, std::nullopt, std::nullopt, training, momentum, eps);
  }

  static Quadruple with_update(const at::Tensor& input, OptionalTensor weight, OptionalTensor bias, at::Tensor& mean,
                               at::Tensor& var, double momentum, double eps) {
    auto [output, save_mean, save_inverse] = functional(input, weight, bias, mean, var, /*training=*/true, momentum, eps);
    return {std::move(output), std::move(save_mean), std::move(save_inverse), new_empty({0}, at::kByte, input.device())};
  }

  static Quadruple without_update(const at::Tensor& input, OptionalTensor weight, OptionalTensor bias, OptionalTensor mean,
                                  OptionalTensor var, double momentum, double eps) {
    auto [output, save_mean, save_inverse] = functional(input, weight, bias, mean, var, /*training=*/false, momentum, eps);
    return {std::move(output), std::move(save_mean), std::move(save_inverse), new_empty({0}, at::kByte, input.device())};
  }
};

struct BatchNormBackward {
  static inline Binding binding;

  static Triple functional(const at::Tensor& grad, const at::Tensor& input, OptionalTensor weight_opt, OptionalTensor running_mean,
                           OptionalTensor running_var, OptionalTensor save_mean, OptionalTensor save_inverse, bool training,
                           double eps, Mask mask) {
    const at::Tensor weight = dense_given(weight_opt);
    const at::Tensor mean = dense_given(training ? save_mean : running_mean),
                     spread = dense_given(training ? save_inverse : running_var);
    TORCH_CHECK(mean.defined() && spread.defined(), "batch norm: expected ", training ? "saved" : "running", " statistics");
    TORCH_CHECK(grad.sizes() == input.sizes(), "batch norm: expected a gradient of sizes ", input.sizes(), ", got ", grad.sizes());
    if (!fits(binding, input, weight, mean, spread) || grad.scalar_type() != input.scalar_type()) {
      return call_fallback<Triple, const at::Tensor&, const at::Tensor&, OptionalTensor, OptionalTensor, OptionalTensor,
                           OptionalTensor, OptionalTensor, bool, double, Mask>(
          binding.functional, grad, input, weight_opt, running_mean, running_var, save_mean, save_inverse, training, eps, mask);
    }
    const Samples samples(input);
    const at::ScalarType dtype = at::native::param_scalar_type(input, at::native::is_mixed_type(input, weight, mean, spread));
    const at::Tensor grad_input = new_empty(input.sizes(), input.scalar_type(), input.device(), samples.format);
    const auto per_channel = [&](bool wanted) {
      return wanted ? new_empty({samples.channels}, dtype, input.device()) : at::Tensor();
    };
    const at::Tensor grad_weight = per_channel(mask[1]), grad_bias = per_channel(mask[2]);
    const at::Tensor output_rows = samples.rows(grad_input), grad_rows = samples.rows(grad), rows = samples.rows(input);
    const at::Tensor* const inputs[] = {&grad_rows, &rows, &mean, &spread, &weight};
    launch_shaped_or_throw(
        binding, input.scalar_type(), {&output_rows, &grad_weight, &grad_bias}, inputs,
        scalars_of<"native_batch_norm_backward", "channels, columns, training, has_grad_weight, has_grad_bias, has_weight, eps">(
            samples.channels, samples.columns, training, mask[1], mask[2], weight.defined(), eps));
    return {mask[0] ? grad_input : at::Tensor(), grad_weight, grad_bias};
  }

  static Triple with_reserve(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight, OptionalTensor running_mean,
                             OptionalTensor running_var, OptionalTensor save_mean, OptionalTensor save_inverse, bool update,
                             double eps, Mask mask, const at::Tensor& /*reserve*/) {
    return functional(grad, input, weight, running_mean, running_var, save_mean, save_inverse, update, eps, mask);
  }
};

// What PyTorch's functions for group normalisation, which check and allocate, call.
void group_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, int64_t samples, int64_t channels,
                int64_t positions, int64_t groups, double eps, at::Tensor& output, at::Tensor& mean, at::Tensor& inverse) {
  const Binding& binding = binding_of<"native_group_norm">;
  if (input.numel() == 0) {
    mean.zero_();
    inverse.fill_(std::numeric_limits<double>::quiet_NaN());
    return;
  }
  const std::array<int64_t, 2> sizes{samples * channels, positions};
  const at::Tensor rows = input.contiguous().view(sizes), results = output.contiguous(), output_rows = results.view(sizes);
  const at::Tensor dense_weight = dense_given(weight), dense_bias = dense_given(bias);
  const at::Tensor* const inputs[] = {&rows, &dense_weight, &dense_bias};
  launch_shaped_or_throw(binding, input.scalar_type(), {&output_rows, &mean, &inverse}, inputs,
                         scalars_of<"native_group_norm", "channels, groups, has_weight, has_bias, eps">(
                             channels, groups, weight.defined(), bias.defined(), eps));
  write_back(results, output);
}

void group_norm_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& mean, const at::Tensor& inverse,
                         const at::Tensor& weight, int64_t samples, int64_t channels, int64_t positions, int64_t groups,
                         at::Tensor& grad_input, at::Tensor& grad_weight, at::Tensor& grad_bias) {
  const Binding& binding = binding_of<"native_group_norm_backward">;
  if (input.numel() == 0) {
    for (at::Tensor* const result : {&grad_weight, &grad_bias}) {
      if (result->defined()) {
        result->zero_();
      }
    }
    return;
  }
  const std::array<int64_t, 2> sizes{samples * channels, positions};
  const at::Tensor results = grad_input.defined() ? grad_input.contiguous() : at::Tensor();
  const at::Tensor output = results.defined() ? results.view(sizes) : new_empty(sizes, input.scalar_type(), input.device());
  const at::Tensor grad_rows = grad.contiguous().view(sizes), rows = input.contiguous().view(sizes);
  const at::Tensor means = mean.contiguous(), inverses = inverse.contiguous(), dense_weight = dense_given(weight);
  const at::Tensor* const inputs[] = {&grad_rows, &rows, &means, &inverses, &dense_weight};
  launch_shaped_or_throw(binding, input.scalar_type(), {&output, &grad_weight, &grad_bias}, inputs,
                         scalars_of<"native_group_norm_backward", "channels, groups, has_grad_weight, has_grad_bias, has_weight">(
                             channels, groups, grad_weight.defined(), grad_bias.defined(), weight.defined()));
  if (results.defined()) {
    write_back(results, grad_input);
  }
}

}  // namespace
}  // namespace rustdev

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(GroupNormKernel, &rustdev::group_norm)
REGISTER_PRIVATEUSE1_DISPATCH(GroupNormBackwardKernel, &rustdev::group_norm_backward)

}  // namespace at::native

namespace rustdev {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  bind<BatchNorm>(m, {"native_batch_norm", nullptr, "native_batch_norm.out", "native_batch_norm"});
  m.impl("_native_batch_norm_legit", TORCH_FN(BatchNorm::legit));
  m.impl("_native_batch_norm_legit.no_stats", TORCH_FN(BatchNorm::without_statistics));
  m.impl("_batch_norm_with_update", TORCH_FN(BatchNorm::with_update));
  m.impl("_batch_norm_no_update", TORCH_FN(BatchNorm::without_update));
  bind<BatchNormBackward>(m,
                          {"native_batch_norm_backward", nullptr, "native_batch_norm_backward.out", "native_batch_norm_backward"});
  m.impl("batch_norm_backward", TORCH_FN(BatchNormBackward::with_reserve));
  m.impl("native_group_norm", TORCH_FN(SameDevice<&at::native::native_group_norm>::call));
  m.impl("native_group_norm_backward", TORCH_FN(SameDevice<&at::native::native_group_norm_backward>::call));
}

}  // namespace rustdev
