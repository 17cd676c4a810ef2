// Automatic mixed precision: which operators run in the lower precision, which in float32, and which in the widest dtype of their
// inputs. The lists are PyTorch's for accelerators; an operator in none of them keeps its dtypes.
#include <ATen/Operators.h>
#include <ATen/autocast_mode.h>

namespace rustdev {

namespace {

// PyTorch's lists name these without a namespace.
using at::IntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

// In the lower precision the logarithm of a probability near 0 or 1 loses all accuracy. The text is PyTorch's, which users match.
Tensor refuse_binary_cross_entropy(const Tensor&, const Tensor&, const std::optional<Tensor>&, int64_t) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
              "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
              "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
              "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
              "safe to autocast.");
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

#define LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FP32_OUTPUT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
  AT_FORALL_FP32(FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(FP32_OUTPUT)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(WIDEST)
  // Whole sequences are cast once, not at each step.
  KERNEL_PRIVATEUSEONE(gru, input, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(lstm, input, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(rnn_relu, input, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(rnn_tanh, input, lower_precision_fp)
  m.impl("binary_cross_entropy", TORCH_FN(refuse_binary_cross_entropy));
}

}  // namespace

}  // namespace rustdev
