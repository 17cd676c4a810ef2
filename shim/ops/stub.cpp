// Operators served through PyTorch's dispatch stubs: PyTorch's own function, at::native::x, checks, promotes and builds the
// iterator, and calls a kernel by the device's type, which is ours here.
//
// A stub alone serves nobody: the operator has to be registered for the device's key as well, or it goes to the fallback. The way
// suits operators without a structured meta, whose function does more than a table row could say.
#include <ATen/native/DispatchStub.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/logit_native.h>

#include "structured.h"

namespace rustdev {
namespace {

void logit_kernel(at::TensorIteratorBase& iter, const at::Scalar& eps) {
  static const Binding binding = [] {
    Binding found;
    find_kernel(found, {"logit", "logit_", "logit.out", "logit"});
    return found;
  }();
  Launch launch;
  launch.scalar(eps);
  TORCH_CHECK_NOT_IMPLEMENTED(launch_iterator(iter, binding, iter.common_dtype(), launch), "\"logit\" not implemented for '",
                              iter.common_dtype(), "'");
}

}  // namespace
}  // namespace rustdev

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(logit_stub, &rustdev::logit_kernel)
}

namespace rustdev {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("logit", TORCH_FN(at::native::logit));
  m.impl("logit_", TORCH_FN(at::native::logit_));
  m.impl("logit.out", TORCH_FN(at::native::logit_out));
}

}  // namespace rustdev
