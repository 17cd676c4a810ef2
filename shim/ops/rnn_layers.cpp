// LSTM, GRU and RNN over whole sequences: for each layer and direction one product of all inputs, and one kernel that goes through
// the steps. What it does not take (packed sequences, projections, tensors that are traced or wrapped) is PyTorch's own composition
// of cells.
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gru_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/lstm_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rnn_relu_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/rnn_tanh_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <functional>

#include "ops/lines.h"
#include "ops/tier.h"

namespace rustdev {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;
using Pair = std::tuple<at::Tensor, at::Tensor>;
using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

void launch_layer(const Binding& binding, std::initializer_list<const at::Tensor*> outputs, at::ArrayRef<const at::Tensor*> inputs,
                  at::ArrayRef<at::Scalar> scalars) {
  launch_shaped_or_throw(binding, (*outputs.begin())->scalar_type(), outputs, inputs, scalars);
}

// A tensor [steps, batch, size] as [steps * batch, size].
at::Tensor rows_of(const at::Tensor& sequence) { return sequence.view({-1, sequence.size(2)}); }

// What a layer in one direction is made of: input [steps, batch, inputs], weights [gates * size, inputs] and [gates * size, size],
// biases [gates * size] or undefined, states [batch, size]. Contiguous, and saved in this order, followed by what its kernel
// leaves.
struct Layer {
  at::Tensor input, input_weight, weight, input_bias, bias, hx;

  Layer(const at::Tensor& input, const at::Tensor& input_weight, const at::Tensor& weight, const OptionalTensor& input_bias,
        const OptionalTensor& bias, const at::Tensor& hx)
      : input(input.contiguous()),
        input_weight(input_weight),
        weight(weight.contiguous()),
        input_bias(given(input_bias)),
        bias(given(bias)),
        hx(hx.contiguous()) {}

  explicit Layer(const variable_list& saved)
      : input(saved[0]), input_weight(saved[1]), weight(saved[2]), input_bias(saved[3]), bias(saved[4]), hx(saved[5]) {}

  static constexpr size_t arguments = 6;

  variable_list and_also(std::initializer_list<at::Tensor> others) const {
    variable_list saved{input, input_weight, weight, input_bias, bias, hx};
    saved.insert(saved.end(), others);
    return saved;
  }

  // The sums of the inputs [steps, batch, gates * size].
  at::Tensor sums(const OptionalTensor& biases) const {
    return at::linear(rows_of(input), input_weight, biases).view({input.size(0), input.size(1), weight.size(0)});
  }
  OptionalTensor both_biases() const { return bias.defined() ? OptionalTensor(input_bias.add(bias)) : std::nullopt; }

  at::Tensor empty_out() const { return at::empty({input.size(0), hx.size(0), hx.size(1)}, hx.options()); }

  // The gradients of the first five, from those of the sums of the inputs and of the products of the hidden state.
  variable_list grads(AutogradContext* ctx, const at::Tensor& of_sums, const at::Tensor& of_products, const at::Tensor& out,
                      bool reverse) const {
    const at::Tensor rows = rows_of(of_sums);
    const auto sum = [&](size_t which, const at::Tensor& grad) {
      return bias.defined() && ctx->needs_input_grad(which) ? rows_of(grad).sum(at::IntArrayRef{0}) : at::Tensor();
    };
    return {ctx->needs_input_grad(0) ? rows.mm(input_weight).view(input.sizes()) : at::Tensor(),
            ctx->needs_input_grad(1) ? rows.t().mm(rows_of(input)) : at::Tensor(),
            ctx->needs_input_grad(2) ? grad_of_weight(of_products, out, reverse) : at::Tensor(), sum(3, of_sums),
            sum(4, of_products)};
  }

 private:
  // Each step's hidden state is the one that the step before put out; the first one's is hx.
  at::Tensor grad_of_weight(const at::Tensor& of_products, const at::Tensor& out, bool reverse) const {
    const int64_t others = out.size(0) - 1, first = reverse ? others : 0;
    at::Tensor grad = of_products.select(0, first).t().mm(hx);
    if (others > 0) {
      grad.addmm_(rows_of(of_products.narrow(0, reverse ? 0 : 1, others)).t(), rows_of(out.narrow(0, reverse ? 1 : 0, others)));
    }
    return grad;
  }
};

at::Tensor last_of(const at::Tensor& sequence, bool reverse) {
  return sequence.select(0, reverse ? 0 : sequence.size(0) - 1).clone();
}

// The gradients of the first `count` saved tensors with a graph of their own. It consists of PyTorch's cells, which have second
// derivatives: `composed` runs a layer of them for an input, weights and whether there are biases.
template <class Composed>
variable_list differentiable_grads(const variable_list& saved, size_t count, const variable_list& grads, bool reverse,
                                   Composed composed) {
  const bool has_biases = saved[4].defined();
  const variable_list weights(saved.begin() + 1, saved.begin() + (has_biases ? 5 : 3));
  variable_list results = composed(reverse ? saved[0].flip(0) : saved[0], weights, has_biases);
  for (size_t state = 1; state < results.size(); ++state) {
    results[state] = results[state].squeeze(0);
  }
  results[0] = reverse ? results[0].flip(0) : results[0];
  variable_list wanted, found(count);
  std::vector<size_t> indices;
  for (size_t index = 0; index < count; ++index) {
    if (saved[index].defined() && saved[index].requires_grad()) {
      wanted.push_back(saved[index]);
      indices.push_back(index);
    }
  }
  const variable_list of_wanted = torch::autograd::grad(results, wanted, grads, /*retain_graph=*/true, /*create_graph=*/true,
                                                        /*allow_unused=*/true);
  for (size_t index = 0; index < indices.size(); ++index) {
    found[indices[index]] = of_wanted[index];
  }
  return found;
}

// Gradients followed by some of arguments that have none.
variable_list with(variable_list grads, std::initializer_list<at::Tensor> others, size_t without) {
  grads.insert(grads.end(), others);
  grads.resize(grads.size() + without);
  return grads;
}

class LstmLayer : public torch::autograd::Function<LstmLayer> {
 public:
  static constexpr int64_t gates = 4;

  static const Binding& kernel() {
    const Binding& binding = binding_of<"lstm_layer">;
    return binding;
  }

  static variable_list forward(AutogradContext* ctx, const at::Tensor& input, const at::Tensor& input_weight,
                               const at::Tensor& weight, const OptionalTensor& input_bias, const OptionalTensor& bias,
                               const at::Tensor& hx, const at::Tensor& cx, bool reverse) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const Layer layer(input, input_weight, weight, input_bias, bias, hx);
    const at::Tensor old_cell = cx.contiguous(), activated = layer.sums(layer.both_biases()), out = layer.empty_out();
    const at::Tensor cells = at::empty_like(out);
    launch_layer(kernel(), {&out, &cells, &activated}, {&layer.weight, &layer.hx, &old_cell}, {reverse});
    ctx->save_for_backward(layer.and_also({old_cell, out, cells, activated}));
    ctx->saved_data["reverse"] = reverse;
    return {out, last_of(out, reverse), last_of(cells, reverse)};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const Binding& binding = binding_of<"lstm_layer_backward">;
    const auto saved = ctx->get_saved_variables();
    const bool reverse = ctx->saved_data["reverse"].toBool();
    if (at::GradMode::is_enabled()) {
      const auto composed = [&](const at::Tensor& input, const variable_list& weights, bool has_biases) -> variable_list {
        auto [out, hy, cy] = at::compositeimplicitautograd::lstm(input, {saved[5].unsqueeze(0), saved[6].unsqueeze(0)}, weights,
                                                                 has_biases, 1, 0.0, false, false, false);
        return {out, hy, cy};
      };
      return with(differentiable_grads(saved, Layer::arguments + 1, grads, reverse, composed), {}, 1);
    }
    const Layer layer(saved);
    const at::Tensor &cx = saved[6], &out = saved[7], &cells = saved[8], &activated = saved[9];
    const at::Tensor grad_out = grads[0].contiguous(), grad_gates = at::empty_like(activated);
    // On entry the gradients of the last states, then those of the first.
    const at::Tensor grad_hx = grads[1].clone(at::MemoryFormat::Contiguous);
    const at::Tensor grad_cx = grads[2].clone(at::MemoryFormat::Contiguous);
    launch_layer(binding, {&grad_gates, &grad_hx, &grad_cx}, {&grad_out, &activated, &cells, &cx, &layer.weight}, {reverse});
    return with(layer.grads(ctx, grad_gates, grad_gates, out, reverse), {grad_hx, grad_cx}, 1);
  }
};

class GruLayer : public torch::autograd::Function<GruLayer> {
 public:
  static constexpr int64_t gates = 3;

  static const Binding& kernel() {
    const Binding& binding = binding_of<"gru_layer">;
    return binding;
  }

  static variable_list forward(AutogradContext* ctx, const at::Tensor& input, const at::Tensor& input_weight,
                               const at::Tensor& weight, const OptionalTensor& input_bias, const OptionalTensor& bias,
                               const at::Tensor& hx, bool reverse) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const Layer layer(input, input_weight, weight, input_bias, bias, hx);
    const OptionalTensor of_inputs = layer.bias.defined() ? OptionalTensor(layer.input_bias) : std::nullopt;
    const at::Tensor own = layer.bias.defined() ? layer.bias.contiguous() : at::zeros({layer.weight.size(0)}, hx.options());
    const at::Tensor activated = layer.sums(of_inputs), out = layer.empty_out(), resettable = at::empty_like(out);
    launch_layer(kernel(), {&out, &resettable, &activated}, {&layer.weight, &own, &layer.hx}, {reverse});
    ctx->save_for_backward(layer.and_also({out, resettable, activated}));
    ctx->saved_data["reverse"] = reverse;
    return {out, last_of(out, reverse)};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const Binding& binding = binding_of<"gru_layer_backward">;
    const auto saved = ctx->get_saved_variables();
    const bool reverse = ctx->saved_data["reverse"].toBool();
    if (at::GradMode::is_enabled()) {
      const auto composed = [&](const at::Tensor& input, const variable_list& weights, bool has_biases) -> variable_list {
        auto [out, hy] =
            at::compositeimplicitautograd::gru(input, saved[5].unsqueeze(0), weights, has_biases, 1, 0.0, false, false, false);
        return {out, hy};
      };
      return with(differentiable_grads(saved, Layer::arguments, grads, reverse, composed), {}, 1);
    }
    const Layer layer(saved);
    const at::Tensor &out = saved[6], &resettable = saved[7], &activated = saved[8];
    const at::Tensor grad_out = grads[0].contiguous(), grad_hx = grads[1].clone(at::MemoryFormat::Contiguous);
    // Of the sums of the inputs and of the products of the hidden state.
    const at::Tensor of_both = at::empty({2, out.size(0), out.size(1), gates * out.size(2)}, out.options());
    launch_layer(binding, {&of_both, &grad_hx}, {&grad_out, &activated, &resettable, &out, &layer.hx, &layer.weight}, {reverse});
    return with(layer.grads(ctx, of_both[0], of_both[1], out, reverse), {grad_hx}, 1);
  }
};

class ElmanLayer : public torch::autograd::Function<ElmanLayer> {
 public:
  static constexpr int64_t gates = 1;

  static const Binding& kernel() {
    const Binding& binding = binding_of<"elman_layer">;
    return binding;
  }

  static variable_list forward(AutogradContext* ctx, const at::Tensor& input, const at::Tensor& input_weight,
                               const at::Tensor& weight, const OptionalTensor& input_bias, const OptionalTensor& bias,
                               const at::Tensor& hx, bool reverse, bool relu) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const Layer layer(input, input_weight, weight, input_bias, bias, hx);
    const at::Tensor out = layer.sums(layer.both_biases());
    launch_layer(kernel(), {&out}, {&layer.weight, &layer.hx}, scalars_of<"elman_layer", "reverse, relu">(reverse, relu));
    ctx->save_for_backward(layer.and_also({out}));
    ctx->saved_data["reverse"] = reverse;
    ctx->saved_data["relu"] = relu;
    return {out, last_of(out, reverse)};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const Binding& binding = binding_of<"elman_layer_backward">;
    const auto saved = ctx->get_saved_variables();
    const bool reverse = ctx->saved_data["reverse"].toBool(), relu = ctx->saved_data["relu"].toBool();
    if (at::GradMode::is_enabled()) {
      const auto composed = [&](const at::Tensor& input, const variable_list& weights, bool has_biases) -> variable_list {
        const auto function = relu ? &composed_relu : &composed_tanh;
        auto [out, hy] = function(input, saved[5].unsqueeze(0), weights, has_biases);
        return {out, hy};
      };
      return with(differentiable_grads(saved, Layer::arguments, grads, reverse, composed), {}, 2);
    }
    const Layer layer(saved);
    const at::Tensor& out = saved[6];
    const at::Tensor grad_out = grads[0].contiguous(), grad_sums = at::empty_like(out);
    const at::Tensor grad_hx = grads[1].clone(at::MemoryFormat::Contiguous);
    launch_layer(binding, {&grad_sums, &grad_hx}, {&grad_out, &out, &layer.weight},
                 scalars_of<"elman_layer_backward", "reverse, relu">(reverse, relu));
    return with(layer.grads(ctx, grad_sums, grad_sums, out, reverse), {grad_hx}, 2);
  }

 private:
  static Pair composed_tanh(const at::Tensor& input, const at::Tensor& hx, const variable_list& weights, bool has_biases) {
    return at::compositeimplicitautograd::rnn_tanh(input, hx, weights, has_biases, 1, 0.0, false, false, false);
  }
  static Pair composed_relu(const at::Tensor& input, const at::Tensor& hx, const variable_list& weights, bool has_biases) {
    return at::compositeimplicitautograd::rnn_relu(input, hx, weights, has_biases, 1, 0.0, false, false, false);
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

// A network of layers, as its operator's arguments describe it.
struct Network {
  const at::Tensor& input;
  at::TensorList states;
  at::TensorList params;
  bool has_biases;
  int64_t num_layers;
  double dropout;
  bool train;
  bool bidirectional;
  bool batch_first;

  int64_t directions() const { return bidirectional ? 2 : 1; }
  int64_t cells() const { return num_layers * directions(); }
  const at::Tensor* of_cell(int64_t cell) const { return &params[cell * (has_biases ? 4 : 2)]; }

  // Whether every layer can be one of `Kind`. PyTorch's composition raises the errors of what can not.
  template <class Kind>
  bool fits() const {
    if (c10::impl::TorchDispatchModeTLS::any_modes_set() || input.dim() != 3 || states[0].dim() != 3 ||
        static_cast<int64_t>(params.size()) != cells() * (has_biases ? 4 : 2) ||
        !takes_dtype(Kind::kernel(), input.scalar_type())) {
      return false;
    }
    const auto plain = [&](const at::Tensor& tensor) { return is_plain(tensor, input); };
    if (!plain(input) || !std::all_of(states.begin(), states.end(), plain) || !std::all_of(params.begin(), params.end(), plain)) {
      return false;
    }
    const int64_t batch = input.size(batch_first ? 0 : 1), size = states[0].size(2), wide = Kind::gates * size;
    for (const at::Tensor& state : states) {
      if (!has_sizes(state, {cells(), batch, size})) {
        return false;
      }
    }
    for (int64_t cell = 0; cell < cells(); ++cell) {
      const at::Tensor* const given = of_cell(cell);
      const int64_t inputs = cell < directions() ? input.size(2) : directions() * size;
      if (!has_sizes(given[0], {wide, inputs}) || !has_sizes(given[1], {wide, size}) ||
          (has_biases && !(has_sizes(given[2], {wide}) && has_sizes(given[3], {wide})))) {
        return false;
      }
    }
    return true;
  }

  // The output and the last states, of layers of `Kind` that get `others` after their states.
  template <class Kind, class... Others>
  variable_list run(Others... others) const {
    at::Tensor sequence = batch_first ? input.transpose(0, 1) : input;
    std::vector<variable_list> last(states.size());
    for (int64_t layer = 0; layer < num_layers; ++layer) {
      variable_list outputs;
      for (int64_t direction = 0; direction < directions(); ++direction) {
        const variable_list results = apply<Kind>(sequence, layer * directions() + direction, direction == 1, others...);
        outputs.push_back(results[0]);
        for (size_t state = 0; state < states.size(); ++state) {
          last[state].push_back(results[1 + state]);
        }
      }
      sequence = directions() == 1 ? outputs[0] : at::cat(outputs, -1);
      if (dropout != 0 && train && layer < num_layers - 1) {
        sequence = at::dropout(sequence, dropout, train);
      }
    }
    variable_list results{batch_first ? sequence.transpose(0, 1) : sequence};
    for (const variable_list& state : last) {
      results.push_back(at::stack(state));
    }
    return results;
  }

 private:
  template <class Kind, class... Others>
  variable_list apply(const at::Tensor& sequence, int64_t cell, bool reverse, Others... others) const {
    const at::Tensor* const given = of_cell(cell);
    const auto bias = [&](int64_t which) { return has_biases ? OptionalTensor(given[which]) : std::nullopt; };
    if constexpr (std::is_same_v<Kind, LstmLayer>) {
      return Kind::apply(sequence, given[0], given[1], bias(2), bias(3), states[0].select(0, cell), states[1].select(0, cell),
                         reverse);
    } else {
      return Kind::apply(sequence, given[0], given[1], bias(2), bias(3), states[0].select(0, cell), reverse, others...);
    }
  }
};

Triple lstm(const at::Tensor& input, at::TensorList hx, at::TensorList params, bool has_biases, int64_t num_layers, double dropout,
            bool train, bool bidirectional, bool batch_first) {
  const Network network{input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first};
  if (hx.size() != 2 || !network.fits<LstmLayer>()) {
    return at::compositeimplicitautograd::lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
                                               batch_first);
  }
  const variable_list results = network.run<LstmLayer>();
  return {results[0], results[1], results[2]};
}

Pair gru(const at::Tensor& input, const at::Tensor& hx, at::TensorList params, bool has_biases, int64_t num_layers, double dropout,
         bool train, bool bidirectional, bool batch_first) {
  const Network network{input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first};
  if (!network.fits<GruLayer>()) {
    return at::compositeimplicitautograd::gru(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
                                              batch_first);
  }
  const variable_list results = network.run<GruLayer>();
  return {results[0], results[1]};
}

template <bool relu>
Pair rnn(const at::Tensor& input, const at::Tensor& hx, at::TensorList params, bool has_biases, int64_t num_layers, double dropout,
         bool train, bool bidirectional, bool batch_first) {
  const Network network{input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first};
  if (!network.fits<ElmanLayer>()) {
    return relu ? at::compositeimplicitautograd::rnn_relu(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
                                                          batch_first)
                : at::compositeimplicitautograd::rnn_tanh(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
                                                          batch_first);
  }
  const variable_list results = network.run<ElmanLayer>(relu);
  return {results[0], results[1]};
}

void bind(const std::function<void(const char*, torch::CppFunction)>& impl) {
  impl("gru.input", torch::CppFunction(TORCH_FN(gru)));
  impl("lstm.input", torch::CppFunction(TORCH_FN(lstm)));
  impl("rnn_relu.input", torch::CppFunction(TORCH_FN(rnn<true>)));
  impl("rnn_tanh.input", torch::CppFunction(TORCH_FN(rnn<false>)));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  bind([&](const char* name, torch::CppFunction function) { m.impl(name, std::move(function)); });
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  Tier composite(m, "composite");
  bind([&](const char* name, torch::CppFunction function) { composite.impl(name, std::move(function)); });
}

}  // namespace rustdev
