// torch.lstm over whole sequences: for each layer and direction one product of all inputs, and one kernel that goes through the
// steps. What it does not take (packed sequences, projections, tensors that are traced or wrapped) is PyTorch's own composition of
// cells.
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/lstm_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/stack.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/tier.h"
#include "shaped.h"

namespace rustdev {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

const Binding& forward_binding() {
  static const Binding binding = named_kernel("lstm_layer");
  return binding;
}

void launch_layer(const Binding& binding, std::initializer_list<const at::Tensor*> outputs, at::ArrayRef<const at::Tensor*> inputs,
                  bool reverse) {
  const at::ScalarType dtype = (*outputs.begin())->scalar_type();
  TORCH_CHECK(launch_shaped(binding, dtype, outputs, inputs, {at::Scalar(reverse)}), "\"", rd_op_name(binding.op),
              "\" not implemented for '", dtype, "'");
}

// A tensor [steps, batch, size] as [steps * batch, size].
at::Tensor rows_of(const at::Tensor& sequence) { return sequence.view({-1, sequence.size(2)}); }

// One layer in one direction: input [steps, batch, inputs], weights [4 size, inputs] and [4 size, size], biases [4 size] or
// undefined, states [batch, size]. Returns the output [steps, batch, size] and the last states.
class LstmLayer : public torch::autograd::Function<LstmLayer> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& input, const at::Tensor& input_weight,
                               const at::Tensor& weight, const std::optional<at::Tensor>& optional_input_bias,
                               const std::optional<at::Tensor>& optional_bias, const at::Tensor& hx, const at::Tensor& cx,
                               bool reverse) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor sequence = input.contiguous(), recurrent = weight.contiguous(), old_cell = cx.contiguous();
    const at::Tensor old_hidden = hx.contiguous();
    const at::Tensor input_bias = given(optional_input_bias), bias = given(optional_bias);
    const auto both = bias.defined() ? std::optional<at::Tensor>(input_bias.add(bias)) : std::nullopt;
    const int64_t steps = input.size(0);
    const at::Tensor gates = at::linear(rows_of(sequence), input_weight, both).view({steps, input.size(1), weight.size(0)});
    const at::Tensor out = at::empty({steps, hx.size(0), hx.size(1)}, hx.options());
    const at::Tensor cells = at::empty_like(out);
    launch_layer(forward_binding(), {&out, &cells, &gates}, {&recurrent, &old_hidden, &old_cell}, reverse);
    const int64_t last = reverse ? 0 : steps - 1;
    ctx->save_for_backward({sequence, input_weight, recurrent, input_bias, bias, old_hidden, old_cell, out, cells, gates});
    ctx->saved_data["reverse"] = reverse;
    return {out, out.select(0, last).clone(), cells.select(0, last).clone()};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const Binding binding = named_kernel("lstm_layer_backward");
    const auto saved = ctx->get_saved_variables();
    const bool reverse = ctx->saved_data["reverse"].toBool();
    if (at::GradMode::is_enabled()) {
      return differentiable_backward(saved, grads, reverse);
    }
    const at::Tensor &input = saved[0], &input_weight = saved[1], &weight = saved[2], &bias = saved[4], &hx = saved[5],
                     &cx = saved[6], &out = saved[7], &cells = saved[8], &gates = saved[9];
    const at::Tensor grad_out = grads[0].contiguous(), grad_gates = at::empty_like(gates);
    // On entry the gradients of the last states, then those of the first.
    const at::Tensor grad_hx = grads[1].clone(at::MemoryFormat::Contiguous);
    const at::Tensor grad_cx = grads[2].clone(at::MemoryFormat::Contiguous);
    launch_layer(binding, {&grad_gates, &grad_hx, &grad_cx}, {&grad_out, &gates, &cells, &cx, &weight}, reverse);
    const at::Tensor grad_rows = rows_of(grad_gates);
    const bool wants_bias = bias.defined() && (ctx->needs_input_grad(3) || ctx->needs_input_grad(4));
    const at::Tensor grad_bias = wants_bias ? grad_rows.sum(at::IntArrayRef{0}) : at::Tensor();
    return {ctx->needs_input_grad(0) ? grad_rows.mm(input_weight).view(input.sizes()) : at::Tensor(),
            ctx->needs_input_grad(1) ? grad_rows.t().mm(rows_of(input)) : at::Tensor(),
            ctx->needs_input_grad(2) ? grad_of_weight(grad_gates, out, hx, reverse) : at::Tensor(),
            grad_bias,
            wants_bias ? grad_bias.clone() : at::Tensor(),
            grad_hx,
            grad_cx,
            at::Tensor()};
  }

 private:
  // Each step's hidden state is the one that the step before put out; the first one's is hx.
  static at::Tensor grad_of_weight(const at::Tensor& grad_gates, const at::Tensor& out, const at::Tensor& hx, bool reverse) {
    const int64_t others = out.size(0) - 1, first = reverse ? others : 0;
    at::Tensor grad = grad_gates.select(0, first).t().mm(hx);
    if (others > 0) {
      grad.addmm_(rows_of(grad_gates.narrow(0, reverse ? 0 : 1, others)).t(), rows_of(out.narrow(0, reverse ? 1 : 0, others)));
    }
    return grad;
  }

  // The graph of a second derivative consists of PyTorch's cells, which have one.
  static variable_list differentiable_backward(const variable_list& saved, const variable_list& grads, bool reverse) {
    const at::Tensor input = reverse ? saved[0].flip(0) : saved[0];
    const bool has_biases = saved[4].defined();
    const variable_list weights(saved.begin() + 1, saved.begin() + (has_biases ? 5 : 3));
    auto [out, hy, cy] = at::compositeimplicitautograd::lstm(input, {saved[5].unsqueeze(0), saved[6].unsqueeze(0)}, weights,
                                                             has_biases, 1, 0.0, false, false, false);
    variable_list wanted, found(8);
    std::vector<size_t> places;
    for (size_t place = 0; place < 7; ++place) {
      if (saved[place].defined() && saved[place].requires_grad()) {
        wanted.push_back(saved[place]);
        places.push_back(place);
      }
    }
    const variable_list results = torch::autograd::grad({reverse ? out.flip(0) : out, hy.squeeze(0), cy.squeeze(0)}, wanted, grads,
                                                        /*retain_graph=*/true, /*create_graph=*/true, /*allow_unused=*/true);
    for (size_t index = 0; index < places.size(); ++index) {
      found[places[index]] = results[index];
    }
    return found;
  }
};

// A plain tensor of the device: none that a mode, a transform or a view would have to see.
bool is_plain(const at::Tensor& tensor, const at::Tensor& like) {
  static const c10::DispatchKeySet others =
      c10::python_ks |
      c10::DispatchKeySet({c10::DispatchKey::Functionalize, c10::DispatchKey::Conjugate, c10::DispatchKey::Negative,
                           c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper});
  return tensor.device() == like.device() && tensor.device().is_privateuseone() && tensor.layout() == at::kStrided &&
         tensor.scalar_type() == like.scalar_type() && !tensor.key_set().has_any(others) && !tensor._fw_grad(0).defined() &&
         tensor.numel() > 0;
}

bool has_sizes(const at::Tensor& tensor, at::IntArrayRef sizes) { return tensor.sizes() == sizes; }

// Whether every layer can be made by LstmLayer. PyTorch's composition raises the errors of what can not.
bool takes(const at::Tensor& input, at::TensorList hx, at::TensorList params, bool has_biases, int64_t num_layers,
           bool bidirectional, bool batch_first) {
  const int64_t directions = bidirectional ? 2 : 1, cells = num_layers * directions, per_cell = has_biases ? 4 : 2;
  if (c10::impl::TorchDispatchModeTLS::any_modes_set() || hx.size() != 2 || input.dim() != 3 || hx[0].dim() != 3 ||
      static_cast<int64_t>(params.size()) != cells * per_cell || !takes_dtype(forward_binding(), input.scalar_type())) {
    return false;
  }
  const auto plain = [&](const at::Tensor& tensor) { return is_plain(tensor, input); };
  if (!plain(input) || !std::all_of(hx.begin(), hx.end(), plain) || !std::all_of(params.begin(), params.end(), plain)) {
    return false;
  }
  const int64_t batch = input.size(batch_first ? 0 : 1), size = hx[0].size(2);
  for (const at::Tensor& state : hx) {
    if (!has_sizes(state, {cells, batch, size})) {
      return false;
    }
  }
  for (int64_t cell = 0; cell < cells; ++cell) {
    const at::Tensor* given = &params[cell * per_cell];
    const int64_t inputs = cell < directions ? input.size(2) : directions * size;
    if (!has_sizes(given[0], {4 * size, inputs}) || !has_sizes(given[1], {4 * size, size}) ||
        (has_biases && !(has_sizes(given[2], {4 * size}) && has_sizes(given[3], {4 * size})))) {
      return false;
    }
  }
  return true;
}

Triple lstm(const at::Tensor& input, at::TensorList hx, at::TensorList params, bool has_biases, int64_t num_layers, double dropout,
            bool train, bool bidirectional, bool batch_first) {
  if (!takes(input, hx, params, has_biases, num_layers, bidirectional, batch_first)) {
    return at::compositeimplicitautograd::lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
                                               batch_first);
  }
  const int64_t directions = bidirectional ? 2 : 1, per_cell = has_biases ? 4 : 2;
  at::Tensor sequence = batch_first ? input.transpose(0, 1) : input;
  std::vector<at::Tensor> last_hidden, last_cells;
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    std::vector<at::Tensor> outputs;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t cell = layer * directions + direction;
      const at::Tensor* given = &params[cell * per_cell];
      const auto bias = [&](int64_t which) { return has_biases ? std::optional<at::Tensor>(given[which]) : std::nullopt; };
      auto results = LstmLayer::apply(sequence, given[0], given[1], bias(2), bias(3), hx[0].select(0, cell), hx[1].select(0, cell),
                                      direction == 1);
      outputs.push_back(std::move(results[0]));
      last_hidden.push_back(std::move(results[1]));
      last_cells.push_back(std::move(results[2]));
    }
    sequence = directions == 1 ? outputs[0] : at::cat(outputs, -1);
    if (dropout != 0 && train && layer < num_layers - 1) {
      sequence = at::dropout(sequence, dropout, train);
    }
  }
  return {batch_first ? sequence.transpose(0, 1) : sequence, at::stack(last_hidden), at::stack(last_cells)};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("lstm.input", TORCH_FN(lstm)); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  Tier aten(m, "composite");
  aten.impl("lstm.input", TORCH_FN(lstm));
}

}  // namespace rustdev
