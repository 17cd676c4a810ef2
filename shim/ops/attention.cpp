// The backend choice of scaled_dot_product_attention: the CPU's flash attention operators, which are bound in Rust, where they
// support the call; else PyTorch's composition of products and softmax (dropout, nested tensors, masks with gradients).
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_fused_sdp_choice_native.h>

#include "ops/tier.h"

namespace rustdev {
namespace {

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

}  // namespace rustdev

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &rustdev::choose)

}  // namespace at::native
