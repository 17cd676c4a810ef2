// The cells of LSTM and GRU, made of pointwise operators: PyTorch has them for CUDA only, and its recurrent layers ask every other
// accelerator for them too. Forward and backward share a workspace of activated gates, whose layout is known here alone.
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "ops/tier.h"
#include "tensor.h"

namespace rustdev {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

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

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                         const at::Tensor& cx, const OptionalTensor& input_bias,
                                                         const OptionalTensor& hidden_bias) {
  const auto gates = parts_of(biased(biased(input_gates.add(hidden_gates), input_bias), hidden_bias), 4);
  const at::Tensor i = gates[0].sigmoid();
  const at::Tensor f = gates[1].sigmoid();
  const at::Tensor g = gates[2].tanh();
  const at::Tensor o = gates[3].sigmoid();
  const at::Tensor cy = f.mul(cx).add_(i.mul(g));
  const at::Tensor hy = o.mul(cy.tanh());
  return {hy, cy, at::cat({i, f, g, o}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(const OptionalTensor& grad_of_hy,
                                                                  const OptionalTensor& grad_of_cy, const at::Tensor& cx,
                                                                  const at::Tensor& cy, const at::Tensor& workspace,
                                                                  bool has_bias) {
  const at::Tensor grad_hy = given(grad_of_hy), grad_cy = given(grad_of_cy);
  if (!grad_hy.defined() && !grad_cy.defined()) {
    return {};
  }
  const auto gates = parts_of(workspace, 4);
  const at::Tensor &i = gates[0], &f = gates[1], &g = gates[2], &o = gates[3];
  const at::Tensor tanh_cy = cy.tanh();
  const at::Tensor grad_h = grad_hy.defined() ? grad_hy : at::zeros_like(cy);
  at::Tensor grad_c = grad_h.mul(o).mul_(tanh_slope(tanh_cy));
  if (grad_cy.defined()) {
    grad_c = grad_c.add(grad_cy);
  }
  const at::Tensor grad_gates = at::cat({grad_c.mul(g).mul_(sigmoid_slope(i)), grad_c.mul(cx).mul_(sigmoid_slope(f)),
                                         grad_c.mul(i).mul_(tanh_slope(g)), grad_h.mul(tanh_cy).mul_(sigmoid_slope(o))},
                                        1);
  return {grad_gates, grad_c.mul(f), has_bias ? grad_gates.sum(at::IntArrayRef{0}) : at::Tensor()};
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
  Tier aten(m, "composite");
  aten.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  aten.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  aten.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  aten.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

}  // namespace rustdev
