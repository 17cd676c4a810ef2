// Convolutions in all directions: PyTorch's CPU kernels as tasks on the stream, the batch or the channels divided over the pool.
//
// The parts depend on the shapes alone, so that results do not depend on the number of threads.
#include <ATen/Context.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/cpu/Utils.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/mkldnn_convolution.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/aten_task.h"
#include "ops/factory.h"
#include "ops/tier.h"
#include "tensor.h"

namespace rustdev {
namespace {

// Positions of the output for which a kernel's reordering of the weights is a small share of its work, and the channels of a block:
// fewer where a call would not be divided at all.
constexpr int64_t least_positions = 1024;
constexpr int64_t least_channels = 64, fewest_channels = 32;

// The parameters of a convolution, owned, because the task outlives the call.
struct Geometry {
  std::vector<int64_t> stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;
};

// How a call is divided: along the batch, or along the channels that its parts do not share, those of the output forward and those
// of the input backward.
struct Division {
  int64_t parts = 1;
  bool by_channels = false;
  uint64_t cost = 0;

  // Part number `part` of a tensor along a dimension.
  at::Tensor along(const at::Tensor& tensor, int64_t dim, int64_t part) const { return part_of(tensor, dim, part, parts); }
  // The same of what has a batch: the whole tensor where the channels are divided.
  at::Tensor of_batch(const at::Tensor& tensor, int64_t part) const { return by_channels ? tensor : along(tensor, 0, part); }
  // The same of what has the divided channels in dimension `dim`: the whole tensor where the batch is divided.
  at::Tensor of_channels(const at::Tensor& tensor, int64_t dim, int64_t part) const {
    return by_channels && tensor.defined() ? along(tensor, dim, part) : tensor;
  }
};

// The greatest power of two up to both.
int64_t power_of_two(int64_t limit, int64_t other) {
  int64_t power = 1;
  while (2 * power <= std::min(limit, other)) {
    power *= 2;
  }
  return power;
}

// `channels`: those that can be divided. `factor`: how many such products a call makes.
Division divide(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& output, const Geometry& geometry,
                int64_t channels, double factor) {
  // Each weight meets every position of the smaller side once.
  const at::Tensor& smaller = geometry.transposed ? input : output;
  const int64_t positions = smaller.numel() / std::max<int64_t>(smaller.size(1), 1);
  const double per_product = c10::isReducedFloatingType(input.scalar_type()) ? 0.006 : 0.03;  // ns
  Division division;
  division.cost =
      static_cast<uint64_t>(factor * static_cast<double>(positions) * static_cast<double>(weight.numel()) * per_product) + 1000;
  const int64_t worth = parts_worth(division.cost);
  const int64_t by_batch = power_of_two(std::min(worth, input.size(0)), positions / least_positions);
  const bool can_divide_channels = !geometry.transposed && geometry.groups == 1;
  const bool is_divided = by_batch > 1 || channels >= 2 * least_channels;
  const int64_t block = is_divided ? least_channels : fewest_channels;
  const int64_t by_channels = can_divide_channels ? power_of_two(worth, channels / block) : 1;
  division.by_channels = by_channels > by_batch;
  division.parts = std::max(by_batch, by_channels);
  return division;
}

// Whether the kernels for 16 bit numbers are not to be trusted with a convolution from `input` to `output`.
bool needs_float32(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& output, const Geometry& geometry) {
  if (!c10::isReducedFloatingType(input.scalar_type())) {
    return false;
  }
  const at::Tensor& image = geometry.transposed ? output : input;
  const at::Tensor& windows = geometry.transposed ? input : output;
  c10::SmallVector<rd_convolution_dimension, 3> dimensions;
  for (size_t dim = 0; dim < geometry.stride.size(); ++dim) {
    const auto at = static_cast<int64_t>(dim) + 2;
    dimensions.push_back(
        {image.size(at), windows.size(at), weight.size(at), geometry.stride[dim], geometry.padding[dim], geometry.dilation[dim]});
  }
  return !rd_convolution_is_regular(dimensions.data(), dimensions.size(), geometry.transposed);
}

// A part of a task's operand, in the dtype that it is computed in.
at::Tensor in_computed_dtype(const at::Tensor& tensor, bool in_float32) {
  return in_float32 && tensor.defined() ? tensor.to(at::kFloat) : tensor;
}

// Elements of a channel from which oneDNN's kernel for volumes is faster than the one that PyTorch chooses for a batch of one.
constexpr int64_t least_volume = 128;

// Whether PyTorch would give this part to its kernel that unfolds each volume, which takes 1.4 to 5 times as long as oneDNN's.
bool unfolds_volume(const at::Tensor& input, const Geometry& geometry) {
  return input.dim() == 5 && input.size(0) == 1 && input.numel() >= least_volume * input.size(1) && geometry.groups == 1 &&
         !geometry.transposed && input.scalar_type() == at::kFloat && input.is_contiguous() && at::hasMKLDNN() &&
         at::globalContext().userEnabledMkldnn();
}

at::Tensor convolve(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, const Geometry& geometry) {
  const auto optional_bias = bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt;
  if (unfolds_volume(input, geometry)) {
    return at::mkldnn_convolution(input, weight.contiguous(), optional_bias, geometry.padding, geometry.stride, geometry.dilation,
                                  1);
  }
  return at::convolution(input, weight, optional_bias, geometry.stride, geometry.padding, geometry.dilation, geometry.transposed,
                         geometry.output_padding, geometry.groups);
}

using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// `bias_sizes`: where the gradient of a bias is wanted.
Gradients gradients_of(const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight,
                       at::OptionalIntArrayRef bias_sizes, const Geometry& geometry, std::array<bool, 3> mask) {
  // An input in oneDNN's layout leaves PyTorch no choice; the gradients are dense.
  const at::Tensor chosen = unfolds_volume(input, geometry) ? input.to_mkldnn() : input;
  return at::convolution_backward(grad_output, chosen, weight, bias_sizes, geometry.stride, geometry.padding, geometry.dilation,
                                  geometry.transposed, geometry.output_padding, geometry.groups, mask);
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
  const at::IntArrayRef spatial = at::IntArrayRef(sizes).slice(2);
  // As on the CPU, whose transposed convolutions of 16 bit numbers may be empty.
  const int64_t least = geometry.transposed && c10::isReducedFloatingType(input.scalar_type()) ? 0 : 1;
  TORCH_CHECK(std::all_of(spatial.begin(), spatial.end(), [&](int64_t size) { return size >= least; }),
              "Given input size per channel: ", input.sizes().slice(2), ". Calculated output size per channel: ", spatial,
              ". Output size is too small");
  return new_empty(sizes, input.scalar_type(), input.device(), format_of(input, weight));
}

// Refuses what PyTorch's convolutions have refused before they call these, for those who call these themselves.
void check_geometry(const at::Tensor& input, const at::Tensor& weight, const Geometry& geometry) {
  const int64_t dims = input.dim() - 2;
  TORCH_CHECK(dims >= 1 && weight.dim() == input.dim(),
              "convolution: expected input and weight of as many dimensions, 3 or more, got ", input.dim(), " and ", weight.dim());
  for (const auto* const values : {&geometry.stride, &geometry.padding, &geometry.dilation, &geometry.output_padding}) {
    TORCH_CHECK(static_cast<int64_t>(values->size()) == dims, "convolution: expected ", dims, " numbers for each parameter, got ",
                values->size());
  }
  const auto is_positive = [](int64_t value) { return value > 0; };
  for (const auto* const values : {&geometry.stride, &geometry.dilation}) {
    TORCH_CHECK(std::all_of(values->begin(), values->end(), is_positive), "convolution: expected positive strides and dilations");
  }
  const int64_t channels = weight.size(geometry.transposed ? 0 : 1) * (geometry.transposed ? 1 : geometry.groups);
  TORCH_CHECK(geometry.groups > 0 && weight.size(0) % geometry.groups == 0 && input.size(1) == channels,
              "convolution: weights of sizes ", weight.sizes(), " in ", geometry.groups, " groups do not fit ", input.size(1),
              " channels");
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& optional_bias,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, int64_t groups) {
  const at::Tensor bias = given(optional_bias);
  check(input, weight, bias);
  Geometry geometry{stride.vec(), padding.vec(), dilation.vec(), output_padding.vec(), transposed, groups};
  check_geometry(input, weight, geometry);
  at::Tensor output = new_output(input, weight, geometry);
  if (output.numel() == 0) {
    return output;
  }
  const Division division = divide(input, weight, output, geometry, weight.size(0), 1.0);
  const bool in_float32 = needs_float32(input, weight, output, geometry);
  auto work = [x = borrow(input), w = borrow(weight), b = borrow(bias), y = borrow(output), g = std::move(geometry), division,
               in_float32] {
    const at::Tensor weights = in_computed_dtype(w, in_float32);
    const at::Tensor biases = in_computed_dtype(b, in_float32);
    parallel_aten(division.parts, division.cost, [&](int64_t part) {
      const at::Tensor own_bias = division.of_channels(biases, 0, part);
      const at::Tensor found =
          convolve(in_computed_dtype(division.of_batch(x, part), in_float32), division.of_channels(weights, 0, part), own_bias, g);
      division.of_batch(division.of_channels(y, 1, part), part).copy_(found);
    });
  };
  submit_aten("convolution", {output}, {input, weight, bias}, division.cost, std::move(work));
  return output;
}

// The gradients of one backward call: where they go, and what each part adds to those of weight and bias.
struct Backward {
  at::Tensor grad_output, input, weight;
  at::Tensor grad_input, grad_weight, grad_bias;
  std::array<bool, 3> mask;
  Geometry geometry;
  Division division;
  bool in_float32;

  Gradients run_part(int64_t part) const {
    const bool with_bias = mask[2] && (!division.by_channels || part == 0);
    const at::OptionalIntArrayRef bias_sizes = with_bias ? at::OptionalIntArrayRef(grad_bias.sizes()) : std::nullopt;
    auto result = gradients_of(in_computed_dtype(division.of_batch(grad_output, part), in_float32),
                               in_computed_dtype(part_of_input(input, part), in_float32),
                               in_computed_dtype(division.of_channels(weight, 1, part), in_float32), bias_sizes, geometry,
                               {mask[0], mask[1], with_bias});
    if (mask[0]) {
      part_of_input(grad_input, part).copy_(std::get<0>(result));
    }
    return result;
  }

  // Whether oneDNN's kernel for the input's gradient is some twenty times slower than without the stride.
  bool has_slow_stride() const {
    return mask[0] && !in_float32 && !geometry.transposed && c10::isReducedFloatingType(input.scalar_type()) &&
           geometry.groups == input.size(1) && geometry.groups == weight.size(0) &&
           std::any_of(geometry.stride.begin(), geometry.stride.end(), [](int64_t stride) { return stride > 1; }) &&
           at::cpu::is_avx512_vnni_supported();
  }

  Backward with_mask(std::array<bool, 3> other) const {
    Backward changed = *this;
    changed.mask = other;
    return changed;
  }

  // The input's gradient by a convolution without stride, whose output has zeros between the positions of this one.
  Backward without_stride() const {
    Backward spread = with_mask({true, false, false});
    spread.geometry.stride.assign(geometry.stride.size(), 1);
    const auto sizes =
        at::native::conv_output_size(input.sizes(), weight.sizes(), geometry.padding, spread.geometry.stride, geometry.dilation);
    spread.grad_output = at::zeros(sizes, grad_output.options());
    at::Tensor positions = spread.grad_output;
    for (size_t dim = 0; dim < geometry.stride.size(); ++dim) {
      positions = positions.slice(static_cast<int64_t>(dim) + 2, 0, std::nullopt, geometry.stride[dim]);
    }
    positions.copy_(grad_output);
    return spread;
  }

  void run() const {
    if (has_slow_stride()) {
      without_stride().run();
      return with_mask({false, mask[1], mask[2]}).run();
    }
    std::vector<Gradients> results(division.parts);
    parallel_aten(division.parts, division.cost, [&](int64_t part) { results[part] = run_part(part); });
    if (mask[1] && division.by_channels) {
      join_weights(results);
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

  void join_weights(const std::vector<Gradients>& results) const {
    for (int64_t part = 0; part < division.parts; ++part) {
      division.of_channels(grad_weight, 1, part).copy_(std::get<1>(results[part]));
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
  Geometry geometry{stride.vec(), padding.vec(), dilation.vec(), output_padding.vec(), transposed, groups};
  check_geometry(input, weight, geometry);
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
  const bool in_float32 = needs_float32(input, weight, grad_output, geometry);
  const Division division = divide(input, weight, grad_output, geometry, weight.size(1), 2.0);
  Backward backward{borrow(grad_output), borrow(input), borrow(weight),      borrow(grad_input), borrow(grad_weight),
                    borrow(grad_bias),   mask,          std::move(geometry), division,           in_float32};
  submit_aten("convolution_backward", {grad_input, grad_weight, grad_bias}, {grad_output, input, weight}, division.cost,
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
