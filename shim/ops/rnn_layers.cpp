// LSTM, GRU and RNN over whole sequences: the autograd of layers, and the choice between our networks and PyTorch's. Layers and
// networks are bound in Rust; networks with traced or wrapped tensors use PyTorch's composition of cells.
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "operator_call.h"

namespace rustdev {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using torch::jit::Stack;

constexpr std::array<const char*, 4> kinds{"lstm", "gru", "rnn_tanh", "rnn_relu"};

std::string network_of(const std::string& kind) { return kind + ".input"; }
std::string layer_of(const std::string& kind) { return "rustdev::" + kind + "_layer"; }

at::ArrayRef<c10::IValue> arguments_of(const c10::OperatorHandle& op, const Stack& stack) {
  return torch::jit::last(stack, op.schema().arguments().size());
}

// The tensors among values, including those in lists.
variable_list tensors_in(at::ArrayRef<c10::IValue> values) {
  variable_list tensors;
  for (const c10::IValue& value : values) {
    if (value.isTensor()) {
      tensors.push_back(value.toTensor());
    } else if (value.isTensorList()) {
      for (const c10::IValue& tensor : value.toListRef()) {
        tensors.push_back(tensor.toTensor());
      }
    }
  }
  return tensors;
}

// The tensors of a layer in one direction.
struct LayerTensors {
  at::Tensor input;
  at::TensorList weights, states;

  // `all`: [input, weights..., states...].
  LayerTensors(at::TensorList all, size_t states)
      : input(all[0]), weights(all.slice(1, all.size() - states - 1)), states(all.slice(all.size() - states)) {}

  // Output and last states of the layer, computed by PyTorch's cells.
  variable_list composed(const std::string& kind, bool reverse) const {
    variable_list first;
    std::transform(states.begin(), states.end(), std::back_inserter(first), [](const auto& state) { return state.unsqueeze(0); });
    const c10::IValue hx = states.size() == 1 ? c10::IValue(first[0]) : c10::IValue(first);
    const bool has_biases = weights.size() == 4;
    Stack stack{reverse ? input.flip(0) : input, hx, weights, has_biases, 1, 0.0, false, false, false};
    find_operator(network_of(kind).c_str()).callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, stack);
    variable_list results = tensors_in(stack);
    results[0] = reverse ? results[0].flip(0) : results[0];
    std::transform(results.begin() + 1, results.end(), results.begin() + 1, [](const auto& state) { return state.squeeze(0); });
    return results;
  }
};

// Differentiable gradients (create_graph) of the tensors that require one; undefined for others.
variable_list differentiable_grads(const variable_list& results, at::TensorList tensors, const variable_list& grads) {
  variable_list wanted, found(tensors.size());
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(wanted),
               [](const auto& tensor) { return tensor.requires_grad(); });
  const variable_list of_wanted = torch::autograd::grad(results, wanted, grads, /*retain_graph=*/true, /*create_graph=*/true,
                                                        /*allow_unused=*/true);
  for (size_t index = 0, next = 0; index < tensors.size(); ++index) {
    if (tensors[index].requires_grad()) {
      found[index] = of_wanted[next++];
    }
  }
  return found;
}

// The autograd function of a layer in one direction.
class Layer : public torch::autograd::Function<Layer> {
 public:
  // `tensors`: all tensors of the arguments.
  static variable_list forward(AutogradContext* ctx, at::TensorList tensors, const std::string& kind,
                               at::ArrayRef<c10::IValue> arguments) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    Stack stack(arguments.begin(), arguments.end());
    find_operator(layer_of(kind).c_str()).callBoxed(stack);
    variable_list outputs = tensors_in(stack), saved = tensors.vec();
    const size_t states = arguments[2].toListRef().size();
    saved.push_back(outputs[0]);
    saved.insert(saved.end(), outputs.begin() + 1 + states, outputs.end());
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["kind"] = kind;
    ctx->saved_data["given"] = static_cast<int64_t>(tensors.size());
    ctx->saved_data["reverse"] = arguments[3];
    // Cloned, because the last states are views of other outputs.
    outputs.resize(1 + states);
    std::transform(outputs.begin() + 1, outputs.end(), outputs.begin() + 1, [](const auto& state) { return state.clone(); });
    return outputs;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const size_t given = ctx->saved_data["given"].toInt();
    const at::TensorList tensors = at::TensorList(saved).slice(0, given);
    const std::string& kind = ctx->saved_data["kind"].toStringRef();
    const LayerTensors layer(tensors, grads.size() - 1);
    variable_list found;
    if (at::GradMode::is_enabled()) {
      // For second derivatives: recomputed with PyTorch's cells.
      found = differentiable_grads(layer.composed(kind, ctx->saved_data["reverse"].toBool()), tensors, grads);
    } else {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      c10::List<bool> wanted;
      for (size_t index = 0; index < given; ++index) {
        wanted.push_back(ctx->needs_input_grad(index));
      }
      Stack stack{grads, layer.input, layer.weights, layer.states, at::TensorList(saved).slice(given), ctx->saved_data["reverse"],
                  wanted};
      find_operator((layer_of(kind) + "_backward").c_str()).callBoxed(stack);
      found = tensors_in(stack);
    }
    // `kind` and `arguments` have no gradient.
    found.resize(given + 2);
    return found;
  }
};

class LayerKernel final : public c10::OperatorKernel {
 public:
  explicit LayerKernel(std::string kind) : kind_(std::move(kind)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    const auto arguments = arguments_of(op, *stack);
    const variable_list tensors = tensors_in(arguments);
    if (!at::GradMode::is_enabled() || !torch::autograd::any_variable_requires_grad(tensors)) {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      op.callBoxed(stack);
      return;
    }
    variable_list results = Layer::apply(at::TensorList(tensors), kind_, arguments);
    // The other returns stay undefined: only the backward needs them, and has them saved.
    results.resize(op.schema().returns().size());
    torch::jit::drop(*stack, arguments.size());
    stack->insert(stack->end(), results.begin(), results.end());
  }

 private:
  std::string kind_;
};

// True if no mode, functorch transform or forward-mode derivative must see the operations on a tensor.
bool is_plain(const at::Tensor& tensor) {
  static const c10::DispatchKeySet others =
      c10::python_ks |
      c10::DispatchKeySet({c10::DispatchKey::Functionalize, c10::DispatchKey::Conjugate, c10::DispatchKey::Negative,
                           c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper});
  return tensor.layout() == at::kStrided && !tensor.key_set().has_any(others) && !tensor._fw_grad(0).defined();
}

void run_network(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const variable_list tensors = tensors_in(arguments_of(op, *stack));
  const bool are_plain =
      !c10::impl::TorchDispatchModeTLS::any_modes_set() && std::all_of(tensors.begin(), tensors.end(), &is_plain);
  op.callBoxedForDispatchKey(are_plain ? c10::DispatchKey::PrivateUse1 : c10::DispatchKey::CompositeImplicitAutograd, *stack);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  for (const std::string kind : kinds) {
    m.impl(network_of(kind).c_str(), torch::CppFunction::makeFromBoxedFunction<&run_network>());
  }
}

TORCH_LIBRARY_IMPL(rustdev, AutogradPrivateUse1, m) {
  for (const std::string kind : kinds) {
    m.impl(layer_of(kind).c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<LayerKernel>(kind)));
  }
}

}  // namespace rustdev
