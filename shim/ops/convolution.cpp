// PyTorch's convolutions for the CPU, forward and backward, as tasks that are divided into parts. src/ops/convolution/operator.rs
// checks the arguments and makes the outputs. Arguments may have a wider dtype than the outputs; results are rounded.
#include <ATen/Context.h>
#include <ATen/OpMathType.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/mkldnn_convolution.h>

#include "boxed_values.h"
#include "operator_call.h"

namespace rustdev {
namespace {

// The parameters of a convolution, owned, because the task outlives the call.
struct Geometry {
  std::vector<int64_t> stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;
};

// How a call is divided into parts: along the batch, or along channels (of the output in forward, of the input in backward).
struct Division : rd_division {
  explicit Division(const rd_division& given) : rd_division(given) {}

  // Part number `part` of a tensor along a dimension.
  at::Tensor along(const at::Tensor& tensor, int64_t dim, int64_t part) const { return part_of(tensor, dim, part, parts); }
  // The part of a tensor with a batch; the whole tensor if channels are divided.
  at::Tensor of_batch(const at::Tensor& tensor, int64_t part) const { return by_channels ? tensor : along(tensor, 0, part); }
  // The part of a tensor with the divided channels in dimension `dim`; the whole tensor if the batch is divided.
  at::Tensor of_channels(const at::Tensor& tensor, int64_t dim, int64_t part) const {
    return by_channels && tensor.defined() ? along(tensor, dim, part) : tensor;
  }
  // True if PyTorch would choose its kernel that unfolds volumes (im2col), which takes 1.4 to 5 times as long as oneDNN's.
  bool unfolds(const at::Tensor& input) const {
    return large_volumes && input.size(0) == 1 && input.is_contiguous() && at::hasMKLDNN() &&
           at::globalContext().userEnabledMkldnn();
  }
};

at::Tensor convolve(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, const Geometry& geometry,
                    const Division& division) {
  const auto optional_bias = bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt;
  if (division.unfolds(input)) {
    return at::mkldnn_convolution(input, weight.contiguous(), optional_bias, geometry.padding, geometry.stride, geometry.dilation,
                                  1);
  }
  return at::convolution(input, weight, optional_bias, geometry.stride, geometry.padding, geometry.dilation, geometry.transposed,
                         geometry.output_padding, geometry.groups);
}

using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// One backward call: operands, outputs, and the mask of wanted gradients. Parts along the batch sum their gradients of weight and
// bias.
struct Backward {
  at::Tensor grad_output, input, weight;
  at::Tensor grad_input, grad_weight, grad_bias;
  std::array<bool, 3> mask;
  Geometry geometry;
  Division division;

  Gradients run_part(int64_t part) const {
    const bool with_bias = mask[2] && (!division.by_channels || part == 0);
    const at::OptionalIntArrayRef bias_sizes = with_bias ? at::OptionalIntArrayRef(grad_bias.sizes()) : std::nullopt;
    const at::Tensor own_input = part_of_input(input, part);
    // An input in oneDNN's layout makes PyTorch choose oneDNN; the gradients are dense.
    auto result = at::convolution_backward(
        division.of_batch(grad_output, part), division.unfolds(own_input) ? own_input.to_mkldnn() : own_input,
        division.of_channels(weight, 1, part), bias_sizes, geometry.stride, geometry.padding, geometry.dilation,
        geometry.transposed, geometry.output_padding, geometry.groups, {mask[0], mask[1], with_bias});
    if (mask[0]) {
      part_of_input(grad_input, part).copy_(std::get<0>(result));
      std::get<0>(result).reset();
    }
    return result;
  }

  void run() const {
    std::vector<Gradients> results(division.parts);
    parallel_aten(division.parts, division.cost, [&](int64_t part) { results[part] = run_part(part); });
    if (mask[1] && division.by_channels) {
      for (int64_t part = 0; part < division.parts; ++part) {
        division.of_channels(grad_weight, 1, part).copy_(std::get<1>(results[part]));
      }
    } else if (mask[1]) {
      sum_parts<1>(results, grad_weight);
    }
    if (mask[2] && division.by_channels) {
      grad_bias.copy_(std::get<2>(results.front()));
    } else if (mask[2]) {
      sum_parts<2>(results, grad_bias);
    }
  }

  at::Tensor part_of_input(const at::Tensor& tensor, int64_t part) const {
    return division.of_batch(division.of_channels(tensor, 1, part), part);
  }

  // Sums in the opmath dtype, rounded once.
  template <size_t index>
  static void sum_parts(const std::vector<Gradients>& results, const at::Tensor& total) {
    const at::Tensor& first = std::get<index>(results.front());
    const at::Tensor sum = first.to(at::toOpMathType(first.scalar_type()));
    for (size_t part = 1; part < results.size(); ++part) {
      sum.add_(std::get<index>(results[part]));
    }
    total.copy_(sum);
  }
};

at::Tensor tensor_at(const rd_value& value) {
  return value.kind == RD_VALUE_TENSOR ? tensor_of(*static_cast<const rd_tensor*>(value.data)) : at::Tensor();
}

// The parameters behind the three tensors of a call.
Geometry geometry_of(const rd_value* arguments) {
  const auto integers = [&](size_t index) { return boxed(arguments[index]).toIntVector(); };
  return {integers(3), integers(4), integers(5), integers(7), arguments[6].scalar.integer != 0, arguments[8].scalar.integer};
}

void convolution(const rd_value* arguments, at::ArrayRef<at::Tensor> outputs, const rd_division& given) {
  const at::Tensor input = tensor_at(arguments[0]), weight = tensor_at(arguments[1]), bias = tensor_at(arguments[2]);
  auto work = [x = borrow(input), w = borrow(weight), b = borrow(bias), y = borrow(outputs[0]), g = geometry_of(arguments),
               division = Division(given)] {
    parallel_aten(division.parts, division.cost, [&](int64_t part) {
      const at::Tensor found =
          convolve(division.of_batch(x, part), division.of_channels(w, 0, part), division.of_channels(b, 0, part), g, division);
      division.of_batch(division.of_channels(y, 1, part), part).copy_(found);
    });
  };
  submit_aten("convolution", outputs, {input, weight, bias}, given.cost, std::move(work));
}

void convolution_backward(const rd_value* arguments, at::ArrayRef<at::Tensor> outputs, const rd_division& division) {
  const at::Tensor grad_output = tensor_at(arguments[0]), input = tensor_at(arguments[1]), weight = tensor_at(arguments[2]);
  const auto* const mask = static_cast<const bool*>(arguments[9].data);
  Backward backward{borrow(grad_output),         borrow(input),          borrow(weight),
                    borrow(outputs[0]),          borrow(outputs[1]),     borrow(outputs[2]),
                    {mask[0], mask[1], mask[2]}, geometry_of(arguments), Division(division)};
  submit_aten("convolution_backward", outputs, {grad_output, input, weight}, division.cost,
              [backward = std::move(backward)] { backward.run(); });
}

}  // namespace

DividedTask find_divided_task(std::string_view name) {
  if (name == "convolution_overrideable") {
    return &convolution;
  }
  return name == "convolution_backward_overrideable" ? &convolution_backward : nullptr;
}

}  // namespace rustdev
