// Choices between operators that are bound in Rust and PyTorch's compositions of others.
//
// LSTM, GRU and RNN over whole sequences: PyTorch's composition of cells serves traced and wrapped tensors. The autograd function
// of a layer is in python/rustdev/_ops/rnn.py.
//
// scaled_dot_product_attention: the CPU's flash attention operators where they support the call, else PyTorch's composition of
// products and softmax (dropout, nested tensors, masks with gradients).
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include "operator_call.h"
#include "ops/tier.h"

namespace rustdev {
namespace {

using torch::jit::Stack;

// True if `holds` is true of all tensors among an operator's arguments, including those in lists.
template <class Predicate>
bool all_tensors(const c10::OperatorHandle& op, const Stack& stack, const Predicate& holds) {
  const auto is_right = [&](const c10::IValue& value) {
    const auto holds_value = [&](const c10::IValue& tensor) { return holds(tensor.toTensor()); };
    return value.isTensor()       ? holds_value(value)
           : value.isTensorList() ? std::all_of(value.toListRef().begin(), value.toListRef().end(), holds_value)
                                  : true;
  };
  const at::ArrayRef<c10::IValue> arguments = torch::jit::last(stack, op.schema().arguments().size());
  return std::all_of(arguments.begin(), arguments.end(), is_right);
}

// Runs a layer; if autograd has to record it, by the operator of Python.
void run_layer(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  if (!at::GradMode::is_enabled() || all_tensors(op, *stack, [](const at::Tensor& tensor) { return !tensor.requires_grad(); })) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    op.callBoxed(stack);
    return;
  }
  static const c10::OperatorHandle recorded = find_operator("rustdev::_recorded_layer");
  stack->emplace_back(op.operator_name().name);
  recorded.callBoxed(stack);
  std::vector<at::Tensor> results = torch::jit::pop(*stack).toTensorVector();
  // The other returns stay undefined: only the backward needs them, and has them saved.
  results.resize(op.schema().returns().size());
  stack->insert(stack->end(), results.begin(), results.end());
}

// True if no mode, functorch transform or forward-mode derivative must see the operations on a tensor.
bool is_plain(const at::Tensor& tensor) {
  static const c10::DispatchKeySet others =
      c10::python_ks |
      c10::DispatchKeySet({c10::DispatchKey::Functionalize, c10::DispatchKey::Conjugate, c10::DispatchKey::Negative,
                           c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper});
  return tensor.layout() == at::kStrided && !tensor.key_set().has_any(others) && !tensor._fw_grad(0).defined();
}

void run_network(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const bool are_plain = !c10::impl::TorchDispatchModeTLS::any_modes_set() && all_tensors(op, *stack, &is_plain);
  op.callBoxedForDispatchKey(are_plain ? c10::DispatchKey::PrivateUse1 : c10::DispatchKey::CompositeImplicitAutograd, *stack);
}

// The CPU's rule, because the operators are the CPU's; empty tensors use the composition.
int64_t choose(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& mask,
               double dropout, bool is_causal, std::optional<double> scale, bool enable_gqa) {
  if (query.sym_numel() == 0 || key.sym_numel() == 0 || value.sym_numel() == 0) {
    return static_cast<int64_t>(sdp::SDPBackend::math);
  }
  return at::native::_fused_sdp_choice_cpp(query, key, value, mask, dropout, is_causal, scale, enable_gqa);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { impl(m, "aten", "_fused_sdp_choice", TORCH_FN(choose)); }

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  for (const char* const network : {"lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input"}) {
    m.impl(network, torch::CppFunction::makeFromBoxedFunction<&run_network>());
  }
}

TORCH_LIBRARY_IMPL(rustdev, AutogradPrivateUse1, m) {
  for (const char* const layer : {"lstm_layer", "gru_layer", "rnn_tanh_layer", "rnn_relu_layer"}) {
    m.impl(layer, torch::CppFunction::makeFromBoxedFunction<&run_layer>());
  }
}

}  // namespace rustdev

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &rustdev::choose)

}  // namespace at::native
