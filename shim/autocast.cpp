// Autocast: the casting policy of every operator that PyTorch lists, for the key AutocastPrivateUse1.
//
// The lists are PyTorch's own (ATen/autocast_mode.h), the ones that its other accelerators use, so a model autocasts here as it does
// there. An operator in none of them falls through to the kernels below.
#include <ATen/ATen.h>
#include <ATen/Operators.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace rustdev {
namespace {

using at::Scalar;
using at::ScalarType;
using at::Tensor;
using at::IntArrayRef;

// The loss of a sigmoid's output: its logarithm overflows in lower precision, so PyTorch refuses it under autocast on accelerators.
Tensor binary_cross_entropy_banned(const Tensor&, const Tensor&, const std::optional<Tensor>&, int64_t) {
  TORCH_CHECK(
      false,
      "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
      "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
      "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
      "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
      "safe to autocast.");
}

#define RUSTDEV_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define RUSTDEV_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define RUSTDEV_FP32_SET_OPT_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define RUSTDEV_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  AT_FORALL_LOWER_PRECISION_FP(RUSTDEV_LOWER_PRECISION)
  AT_FORALL_FP32(RUSTDEV_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(RUSTDEV_FP32_SET_OPT_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(RUSTDEV_PROMOTE)
  m.impl("binary_cross_entropy", &binary_cross_entropy_banned);
}

}  // namespace
}  // namespace rustdev
