// Convolutions in all directions: PyTorch's CPU kernels as tasks on the stream, the batch split over the pool.
//
// The number of parts depends on the shapes alone, so that results do not depend on the number of threads.
#include <ATen/core/op_registration/adaption.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/aten_task.h"
#include "ops/tier.h"
#include "tensor.h"

namespace rustdev {
namespace {

constexpr double nanoseconds_per_product = 0.03;
constexpr uint64_t part_cost = 100'000;  // ns: smaller parts cost more to hand out than they save
constexpr int64_t max_parts = 16;

// The parameters of a convolution, owned, because the task outlives the call.
struct Geometry {
  std::vector<int64_t> stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;
};

uint64_t cost_of(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& output, bool transposed) {
  // Each weight meets every position of the smaller side once.
  const at::Tensor& positions = transposed ? input : output;
  const auto channels = static_cast<double>(std::max<int64_t>(positions.size(1), 1));
  const double per_channel = static_cast<double>(positions.numel()) / channels;
  return static_cast<uint64_t>(per_channel * static_cast<double>(weight.numel()) * nanoseconds_per_product) + 1000;
}

int64_t parts_of(int64_t batch, uint64_t cost) {
  return std::clamp<int64_t>(static_cast<int64_t>(cost / part_cost), 1, std::clamp<int64_t>(batch, 1, max_parts));
}

// Part number `part` of `parts` along the batch.
at::Tensor slice(const at::Tensor& tensor, int64_t part, int64_t parts) {
  const int64_t batch = tensor.size(0);
  const int64_t begin = batch * part / parts;
  return tensor.narrow(0, begin, batch * (part + 1) / parts - begin);
}

at::MemoryFormat format_of(const at::Tensor& input, const at::Tensor& weight) {
  const at::MemoryFormat format = input.suggest_memory_format();
  return format != at::MemoryFormat::Contiguous ? format : weight.suggest_memory_format();
}

void check(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  std::optional<at::Device> device;
  c10::impl::check_and_update_common_device(device, input, "convolution", "input");
  c10::impl::check_and_update_common_device(device, weight, "convolution", "weight");
  TORCH_CHECK(input.scalar_type() == weight.scalar_type(), "Input type (", input.toString(), ") and weight type (",
              weight.toString(), ") should be the same");
  if (bias.defined()) {
    c10::impl::check_and_update_common_device(device, bias, "convolution", "bias");
    TORCH_CHECK(input.scalar_type() == bias.scalar_type(), "Input type (", input.toString(), ") and bias type (", bias.toString(),
                ") should be the same");
  }
}

at::Tensor new_output(const at::Tensor& input, const at::Tensor& weight, const Geometry& geometry) {
  const auto sizes =
      geometry.transposed
          ? at::native::conv_input_size(input.sizes(), weight.sizes(), geometry.padding, geometry.output_padding, geometry.stride,
                                        geometry.dilation, geometry.groups)
          : at::native::conv_output_size(input.sizes(), weight.sizes(), geometry.padding, geometry.stride, geometry.dilation);
  return new_empty(sizes, input.scalar_type(), input.device(), format_of(input, weight));
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& optional_bias,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, int64_t groups) {
  const at::Tensor bias = given(optional_bias);
  check(input, weight, bias);
  Geometry geometry{stride.vec(), padding.vec(), dilation.vec(), output_padding.vec(), transposed, groups};
  at::Tensor output = new_output(input, weight, geometry);
  if (output.numel() == 0) {
    return output;
  }
  const uint64_t cost = cost_of(input, weight, output, transposed);
  const int64_t parts = parts_of(input.size(0), cost);
  auto work = [x = borrow(input), w = borrow(weight), b = borrow(bias), y = borrow(output), g = std::move(geometry), cost, parts] {
    parallel_aten(parts, cost, [&](int64_t part) {
      const std::optional<at::Tensor> bias_of_part = b.defined() ? std::optional<at::Tensor>(b) : std::nullopt;
      slice(y, part, parts)
          .copy_(at::convolution(slice(x, part, parts), w, bias_of_part, g.stride, g.padding, g.dilation, g.transposed,
                                 g.output_padding, g.groups));
    });
  };
  submit_aten("convolution", {output}, {input, weight, bias}, cost, std::move(work));
  return output;
}

using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// The gradients of one backward call: where they go, and what each part adds to those of weight and bias.
struct Backward {
  at::Tensor grad_output, input, weight;
  at::Tensor grad_input, grad_weight, grad_bias;
  std::array<bool, 3> mask;
  Geometry geometry;
  uint64_t cost;
  int64_t parts;

  Gradients run_part(int64_t part) const {
    const at::OptionalIntArrayRef bias_sizes = mask[2] ? at::OptionalIntArrayRef(grad_bias.sizes()) : std::nullopt;
    auto result = at::convolution_backward(slice(grad_output, part, parts), slice(input, part, parts), weight, bias_sizes,
                                           geometry.stride, geometry.padding, geometry.dilation, geometry.transposed,
                                           geometry.output_padding, geometry.groups, mask);
    if (mask[0]) {
      slice(grad_input, part, parts).copy_(std::get<0>(result));
    }
    return result;
  }

  void run() const {
    std::vector<Gradients> results(parts);
    parallel_aten(parts, cost, [&](int64_t part) { results[part] = run_part(part); });
    if (mask[1]) {
      sum_parts<1>(results, grad_weight);
    }
    if (mask[2]) {
      sum_parts<2>(results, grad_bias);
    }
  }

  template <size_t index>
  static void sum_parts(const std::vector<Gradients>& results, const at::Tensor& total) {
    total.copy_(std::get<index>(results.front()));
    for (size_t part = 1; part < results.size(); ++part) {
      total.add_(std::get<index>(results[part]));
    }
  }
};

Gradients convolution_backward(const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight,
                               at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                               at::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> mask) {
  check(input, weight, grad_output);
  const at::MemoryFormat format = format_of(input, weight);
  const auto like = [&](const at::Tensor& tensor) {
    return new_empty(tensor.sizes(), tensor.scalar_type(), input.device(), format);
  };
  const int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  Gradients gradients{mask[0] ? like(input) : at::Tensor(), mask[1] ? like(weight) : at::Tensor(),
                      mask[2] ? new_empty({channels}, grad_output.scalar_type(), input.device()) : at::Tensor()};
  const auto& [grad_input, grad_weight, grad_bias] = gradients;
  if (grad_output.numel() == 0 || input.numel() == 0) {
    for (const at::Tensor& gradient : {grad_input, grad_weight, grad_bias}) {
      if (gradient.defined()) {
        gradient.zero_();
      }
    }
    return gradients;
  }
  const uint64_t cost = 2 * cost_of(input, weight, grad_output, transposed);
  Backward backward{borrow(grad_output),
                    borrow(input),
                    borrow(weight),
                    borrow(grad_input),
                    borrow(grad_weight),
                    borrow(grad_bias),
                    mask,
                    Geometry{stride.vec(), padding.vec(), dilation.vec(), output_padding.vec(), transposed, groups},
                    cost,
                    parts_of(input.size(0), cost)};
  submit_aten("convolution_backward", {grad_input, grad_weight, grad_bias}, {grad_output, input, weight}, cost,
              [backward = std::move(backward)] { backward.run(); });
  return gradients;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  Tier aten(m, "aten");
  aten.impl("convolution_overrideable", TORCH_FN(convolution));
  aten.impl("convolution_backward_overrideable", TORCH_FN(convolution_backward));
}

}  // namespace rustdev
