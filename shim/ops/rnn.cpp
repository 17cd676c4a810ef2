// Cells of LSTM, a kernel, and of GRU, composed of pointwise operators. PyTorch has them for CUDA only, but its recurrent layers
// call them on every accelerator. Forward and backward share a workspace of activated gates.
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "ops/factory.h"
#include "ops/lines.h"
#include "ops/tier.h"

namespace rustdev {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

// Launches the kernel of a cell, or says that it does not take the dtype.
void launch_cell(const Binding& binding, std::initializer_list<const at::Tensor*> outputs, at::ArrayRef<const at::Tensor*> inputs) {
  const at::ScalarType dtype = (*outputs.begin())->scalar_type();
  for (const at::Tensor* input : inputs) {
    TORCH_CHECK(input->scalar_type() == dtype, "expected operands of one dtype, but got ", input->scalar_type(), " and ", dtype);
  }
  if ((*outputs.begin())->numel() != 0) {
    launch_shaped_or_throw(binding, dtype, outputs, inputs, {});
  }
}

// The parts of a tensor of gates along dimension 1.
std::vector<at::Tensor> parts_of(const at::Tensor& gates, int64_t count) {
  TORCH_CHECK(gates.dim() == 2 && gates.size(1) % count == 0 && gates.size(1) > 0, "expected gates of [batch, ", count,
              " * hidden size], but got: ", gates.sizes());
  return gates.chunk(count, 1);
}

at::Tensor biased(const at::Tensor& gates, const OptionalTensor& optional_bias) {
  const at::Tensor bias = given(optional_bias);
  return bias.defined() ? gates.add(bias) : gates;
}

// d/dx of sigmoid and tanh, from their results.
at::Tensor sigmoid_slope(const at::Tensor& y) { return y.mul(y.neg().add(1)); }
at::Tensor tanh_slope(const at::Tensor& y) { return y.mul(y).neg().add(1); }

using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

at::Tensor empty_of(const at::Tensor& like, at::IntArrayRef sizes) { return new_empty(sizes, like.scalar_type(), like.device()); }

Triple lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& cx,
                 const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const Binding& binding = binding_of<"_thnn_fused_lstm_cell">;
  parts_of(input_gates, 4);
  at::Tensor biases[] = {given(input_bias), given(hidden_bias)};
  const bool is_biased = biases[0].defined() && biases[1].defined();
  // One bias alone is added before.
  const at::Tensor inputs = (is_biased ? input_gates : biased(biased(input_gates, input_bias), hidden_bias)).contiguous();
  const at::Tensor hidden = hidden_gates.contiguous();
  const at::Tensor state = cx.contiguous();
  const at::IntArrayRef gates = input_gates.sizes();
  TORCH_CHECK(hidden.sizes() == gates && state.dim() == 2 && state.size(0) == gates[0] && 4 * state.size(1) == gates[1],
              "expected gates of one size and a cell state of a quarter, but got: ", gates, ", ", hidden.sizes(), " and ",
              state.sizes());
  const Triple results{empty_of(cx, state.sizes()), empty_of(cx, state.sizes()), empty_of(cx, gates)};
  const auto& [hy, cy, workspace] = results;
  c10::SmallVector<const at::Tensor*, 5> operands{&state, &inputs, &hidden};
  if (is_biased) {
    for (at::Tensor& bias : biases) {
      bias = bias.contiguous();
      TORCH_CHECK(bias.sizes() == gates.slice(1), "expected a bias for each gate, but got: ", bias.sizes());
      operands.push_back(&bias);
    }
  }
  launch_cell(binding, {&hy, &cy, &workspace}, operands);
  return results;
}

Triple lstm_cell_backward(const OptionalTensor& grad_of_hy, const OptionalTensor& grad_of_cy, const at::Tensor& cx,
                          const at::Tensor& cy, const at::Tensor& workspace, bool has_bias) {
  const Binding& binding = binding_of<"_thnn_fused_lstm_cell_backward_impl">;
  if (!given(grad_of_hy).defined() && !given(grad_of_cy).defined()) {
    return {};
  }
  const auto grad_or_zeros = [&](const OptionalTensor& optional) {
    const at::Tensor grad = given(optional);
    return grad.defined() ? grad.contiguous() : at::zeros_like(cy, at::MemoryFormat::Contiguous);
  };
  const at::Tensor operands[] = {grad_or_zeros(grad_of_hy), grad_or_zeros(grad_of_cy), cx.contiguous(), cy.contiguous(),
                                 workspace.contiguous()};
  parts_of(workspace, 4);
  for (const at::Tensor& operand : at::ArrayRef<at::Tensor>(operands, 4)) {
    TORCH_CHECK(operand.dim() == 2 && operand.size(0) == workspace.size(0) && 4 * operand.size(1) == workspace.size(1),
                "expected states of a quarter of the workspace's size, but got: ", operand.sizes(), " and ", workspace.sizes());
  }
  const at::Tensor grad_gates = empty_of(cx, workspace.sizes());
  const at::Tensor grad_cx = empty_of(cx, cx.sizes());
  launch_cell(binding, {&grad_gates, &grad_cx}, {&operands[0], &operands[1], &operands[2], &operands[3], &operands[4]});
  return {grad_gates, grad_cx, has_bias ? grad_gates.sum(at::IntArrayRef{0}) : at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& hx,
                                            const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const auto from_input = parts_of(biased(input_gates, input_bias), 3);
  const auto from_hidden = parts_of(biased(hidden_gates, hidden_bias), 3);
  const at::Tensor reset = from_input[0].add(from_hidden[0]).sigmoid_();
  const at::Tensor update = from_input[1].add(from_hidden[1]).sigmoid_();
  const at::Tensor fresh = from_input[2].add(reset.mul(from_hidden[2])).tanh_();
  const at::Tensor hy = hx.sub(fresh).mul_(update).add_(fresh);
  return {hy, at::cat({reset, update, fresh, hx, from_hidden[2]}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(const at::Tensor& grad_hy,
                                                                                         const at::Tensor& workspace,
                                                                                         bool has_bias) {
  const auto parts = parts_of(workspace, 5);
  const at::Tensor &reset = parts[0], &update = parts[1], &fresh = parts[2], &hx = parts[3], &hidden = parts[4];
  const at::Tensor grad_fresh = grad_hy.mul(update.neg().add(1)).mul_(tanh_slope(fresh));
  const at::Tensor grad_update = grad_hy.mul(hx.sub(fresh)).mul_(sigmoid_slope(update));
  const at::Tensor grad_reset = grad_fresh.mul(hidden).mul_(sigmoid_slope(reset));
  const at::Tensor grad_input = at::cat({grad_reset, grad_update, grad_fresh}, 1);
  const at::Tensor grad_hidden = at::cat({grad_reset, grad_update, grad_fresh.mul(reset)}, 1);
  if (!has_bias) {
    return {grad_input, grad_hidden, grad_hy.mul(update), at::Tensor(), at::Tensor()};
  }
  return {grad_input, grad_hidden, grad_hy.mul(update), grad_input.sum(at::IntArrayRef{0}), grad_hidden.sum(at::IntArrayRef{0})};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  m.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  Tier aten(m, "composite");
  aten.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  aten.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

}  // namespace rustdev
