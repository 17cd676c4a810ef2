// native_layer_norm and its backward: checks and results as PyTorch's CPU has them, over rows and columns of contiguous operands.
#include "ops/factory.h"
#include "ops/lines.h"

#include <ATen/native/cpu/mixed_data_type.h>
#include <ATen/native/layer_norm.h>

#include <array>

namespace rustdev {
namespace {

using OptionalTensor = const std::optional<at::Tensor>&;
using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

at::Tensor parameter(OptionalTensor given) {
  if (!given || !given->defined()) {
    return {};
  }
  return given->dim() == 1 ? given->contiguous() : given->contiguous().view({-1});
}

// The shape in which the kernel sees contiguous operands.
struct Matrix {
  Matrix(int64_t rows, int64_t cols) : sizes{rows, cols}, strides{cols, 1} {}

  void add(Launch& launch, const at::Tensor& tensor) const { launch.restrided(tensor, sizes, strides); }

  std::array<int64_t, 2> sizes, strides;
};

struct LayerNorm {
  static inline Binding binding;

  static Triple functional(const at::Tensor& input, at::IntArrayRef normalized_shape, OptionalTensor weight_opt,
                           OptionalTensor bias_opt, double eps) {
    const at::Tensor weight_given = given(weight_opt);
    const at::Tensor bias_given = given(bias_opt);
    const auto [rows, cols] = at::native::_check_layer_norm_inputs(input, normalized_shape, weight_given, bias_given);
    if ((cols == 0 && rows > 0) || !takes_dtype(binding, input.scalar_type())) {
      return call_fallback<Triple, const at::Tensor&, at::IntArrayRef, OptionalTensor, OptionalTensor, double>(
          binding.functional, input, normalized_shape, weight_opt, bias_opt, eps);
    }
    const bool mixed = at::native::is_mixed_type(input, weight_given, bias_given);
    if (mixed) {
      at::native::check_mixed_data_type(input, weight_given, bias_given);
    }
    const at::Tensor source = input.contiguous();
    const at::Tensor weight = parameter(weight_opt);
    const at::Tensor bias = parameter(bias_opt);
    const at::ScalarType dtype = at::native::param_scalar_type(input, mixed);
    at::Tensor output = new_empty(input.sizes(), input.scalar_type(), input.device());
    at::DimVector statistics(input.sizes());
    std::fill(statistics.end() - static_cast<int64_t>(normalized_shape.size()), statistics.end(), 1);
    at::Tensor mean = new_empty(statistics, dtype, input.device());
    at::Tensor rstd = new_empty(statistics, dtype, input.device());
    const Matrix matrix(rows, cols);
    Launch launch;
    matrix.add(launch, output);
    launch.input(mean);
    launch.input(rstd);
    launch.finish_outputs();
    matrix.add(launch, source);
    for (const at::Tensor* given : {&weight, &bias}) {
      if (given->defined()) {
        launch.input(*given);
      }
    }
    launch.scalars(scalars_of<"native_layer_norm", "eps, has_weight, has_bias">(eps, weight.defined(), bias.defined()));
    launch.run_or_throw(binding.op, static_cast<int32_t>(input.scalar_type()), input.device().index());
    return {output, mean, rstd};
  }
};

struct LayerNormBackward {
  static inline Binding binding;

  static Triple functional(const at::Tensor& grad, const at::Tensor& input, at::IntArrayRef normalized_shape,
                           const at::Tensor& mean, const at::Tensor& rstd, OptionalTensor weight_opt, OptionalTensor bias_opt,
                           std::array<bool, 3> mask) {
    const at::Tensor weight_given = given(weight_opt);
    const at::Tensor bias_given = given(bias_opt);
    const auto [rows, cols] = at::native::_check_layer_norm_inputs(input, normalized_shape, weight_given, bias_given);
    if ((cols == 0 && rows > 0) || !takes_dtype(binding, input.scalar_type())) {
      return call_fallback<Triple, const at::Tensor&, const at::Tensor&, at::IntArrayRef, const at::Tensor&, const at::Tensor&,
                           OptionalTensor, OptionalTensor, std::array<bool, 3>>(binding.functional, grad, input, normalized_shape,
                                                                                mean, rstd, weight_opt, bias_opt, mask);
    }
    const at::Tensor weight = parameter(weight_opt);
    const auto like = [&](const at::Tensor& given) {
      const at::ScalarType dtype = given.defined() ? given.scalar_type() : input.scalar_type();
      return new_empty(normalized_shape, dtype, input.device());
    };
    // The kernel always has a gradient of its input: the others come with it.
    const at::Tensor input_grad = new_empty(input.sizes(), input.scalar_type(), input.device());
    const at::Tensor weight_grad = mask[1] ? like(weight_given) : at::Tensor();
    const at::Tensor bias_grad = mask[2] ? like(bias_given.defined() ? bias_given : weight_given) : at::Tensor();
    launch(rows, cols, {grad, input, mean, rstd, weight}, {input_grad, weight_grad, bias_grad});
    return {mask[0] ? input_grad : at::Tensor(), weight_grad, bias_grad};
  }

 private:
  static void launch(int64_t rows, int64_t cols, const std::array<at::Tensor, 5>& inputs, const std::array<at::Tensor, 3>& grads) {
    const Matrix matrix(rows, cols);
    Launch launch;
    matrix.add(launch, grads[0]);
    for (size_t index : {1, 2}) {
      if (grads[index].defined()) {
        launch.input(grads[index]);
      }
    }
    launch.finish_outputs();
    // What was made contiguous here lives until the kernel has its task: memory is reused in the stream's order.
    std::array<at::Tensor, 5> dense;
    for (size_t index = 0; index < inputs.size(); ++index) {
      if (inputs[index].defined()) {
        dense[index] = inputs[index].contiguous();
        if (index < 2) {
          matrix.add(launch, dense[index]);
        } else {
          launch.input(dense[index]);
        }
      }
    }
    launch.scalars(scalars_of<"native_layer_norm_backward", "has_grad_weight, has_grad_bias, has_weight">(
        grads[1].defined(), grads[2].defined(), inputs[4].defined()));
    launch.run_or_throw(binding.op, static_cast<int32_t>(inputs[1].scalar_type()), inputs[1].device().index());
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  bind<LayerNorm>(m, {"native_layer_norm", nullptr, "native_layer_norm.out", "native_layer_norm"});
  bind<LayerNormBackward>(m,
                          {"native_layer_norm_backward", nullptr, "native_layer_norm_backward.out", "native_layer_norm_backward"});
}

}  // namespace rustdev
