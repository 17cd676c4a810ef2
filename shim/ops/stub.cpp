// Operators served through PyTorch's dispatch stubs: PyTorch's own function, at::native::x, checks, promotes and builds the
// iterator, and calls a kernel by the device's type, which is ours here.
//
// A stub alone is not enough: the operator has to be registered for the device's key as well, or it goes to the fallback. Stubs
// suit operators without a structured meta whose function does more than a row of the operator table. Their kernels take every
// dtype that the CPU's take.
#include <ATen/native/Activation.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/LinearAlgebra.h>
#include <ATen/native/PointwiseOps.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/_prelu_kernel_native.h>
#include <ATen/ops/addr_native.h>
#include <ATen/ops/angle_native.h>
#include <ATen/ops/complex_native.h>
#include <ATen/ops/glu_backward_native.h>
#include <ATen/ops/hardswish_backward_native.h>
#include <ATen/ops/hardswish_native.h>
#include <ATen/ops/hardtanh_backward_native.h>
#include <ATen/ops/huber_loss_backward_native.h>
#include <ATen/ops/huber_loss_native.h>
#include <ATen/ops/logical_and_native.h>
#include <ATen/ops/logical_not_native.h>
#include <ATen/ops/logical_or_native.h>
#include <ATen/ops/logical_xor_native.h>
#include <ATen/ops/logit_native.h>
#include <ATen/ops/mish_backward_native.h>
#include <ATen/ops/mse_loss_backward_native.h>
#include <ATen/ops/nan_to_num_native.h>
#include <ATen/ops/polar_native.h>
#include <ATen/ops/smooth_l1_loss_backward_native.h>
#include <torch/library.h>

#include "elementwise_launch.h"

namespace rustdev {
namespace {

// Launches the kernel of that name over the stub's iterator, with the stub's other arguments as scalars.
template <Name name, class Iterator, class... Values>
void run_stub(Iterator iter, Values... values) {
  Launch launch;
  (add_scalar(launch, values), ...);
  run_named(name.text, binding_of<name>, iter, launch);
}

// PyTorch's function of tensors alone, without its iterator where the call needs none.
template <Name name, auto function>
struct Plain;
template <Name name, class... Rest, at::Tensor (*function)(const at::Tensor&, Rest...)>
struct Plain<name, function> {
  static at::Tensor call(const at::Tensor& self, Rest... rest) {
    const std::array<const at::Tensor*, sizeof...(Rest)> others{&rest...};
    Launch launch;
    const at::Tensor result = launch_plain(Fast::floating, binding_of<name>, self, others, false, launch);
    return C10_LIKELY(result.defined()) ? result : function(self, rest...);
  }
};

}  // namespace
}  // namespace rustdev

namespace at::native {

// Gives a stub the kernel of that name.
#define STUB(stub, name) REGISTER_PRIVATEUSE1_DISPATCH(stub, &rustdev::run_stub<#name>)

STUB(addr_stub, addr)
STUB(angle_stub, angle)
STUB(complex_stub, complex)
STUB(glu_backward_stub, glu_backward)
STUB(hardswish_backward_stub, hardswish_backward)
STUB(hardswish_stub, hardswish)
STUB(hardtanh_backward_stub, hardtanh_backward)
STUB(huber_backward_stub, huber_loss_backward)
STUB(huber_stub, huber_loss)
STUB(kaiser_window_stub, kaiser_window)
STUB(logical_and_stub, logical_and)
STUB(logical_not_stub, logical_not)
STUB(logical_or_stub, logical_or)
STUB(logical_xor_stub, logical_xor)
STUB(logit_stub, logit)
STUB(mish_backward_stub, mish_backward)
STUB(mse_backward_stub, mse_loss_backward)
STUB(nan_to_num_stub, nan_to_num)
STUB(polar_stub, polar)
STUB(prelu_stub, _prelu_kernel)
STUB(smooth_l1_backward_stub, smooth_l1_loss_backward)

#undef STUB

}  // namespace at::native

namespace rustdev {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_prelu_kernel", TORCH_FN(at::native::_prelu_kernel));
  m.impl("addr", TORCH_FN(at::native::addr));
  m.impl("addr.out", TORCH_FN(at::native::addr_out));
  m.impl("angle", TORCH_FN(at::native::angle));
  m.impl("angle.out", TORCH_FN(at::native::angle_out));
  m.impl("complex.out", TORCH_FN(at::native::complex_out));
  m.impl("glu_backward", TORCH_FN(at::native::glu_backward_cpu));
  m.impl("glu_backward.grad_input", TORCH_FN(at::native::glu_backward_cpu_out));
  m.impl("hardswish", TORCH_FN((Plain<"hardswish", at::native::hardswish>::call)));
  m.impl("hardswish.out", TORCH_FN(at::native::hardswish_out));
  m.impl("hardswish_", TORCH_FN(at::native::hardswish_));
  m.impl("hardswish_backward", TORCH_FN((Plain<"hardswish_backward", at::native::hardswish_backward>::call)));
  m.impl("hardtanh_backward", TORCH_FN(at::native::hardtanh_backward));
  m.impl("hardtanh_backward.grad_input", TORCH_FN(at::native::hardtanh_backward_out));
  m.impl("huber_loss", TORCH_FN(at::native::huber_loss));
  m.impl("huber_loss.out", TORCH_FN(at::native::huber_loss_out));
  m.impl("huber_loss_backward.out", TORCH_FN(at::native::huber_loss_backward_out));
  m.impl("logical_and.out", TORCH_FN(at::native::logical_and_out));
  m.impl("logical_not.out", TORCH_FN(at::native::logical_not_out));
  m.impl("logical_or.out", TORCH_FN(at::native::logical_or_out));
  m.impl("logical_xor.out", TORCH_FN(at::native::logical_xor_out));
  m.impl("logit", TORCH_FN(at::native::logit));
  m.impl("logit.out", TORCH_FN(at::native::logit_out));
  m.impl("logit_", TORCH_FN(at::native::logit_));
  m.impl("mish_backward", TORCH_FN((Plain<"mish_backward", at::native::mish_backward>::call)));
  m.impl("mse_loss_backward", TORCH_FN(at::native::mse_loss_backward));
  m.impl("mse_loss_backward.grad_input", TORCH_FN(at::native::mse_loss_backward_out));
  m.impl("nan_to_num.out", TORCH_FN(at::native::nan_to_num_out));
  m.impl("polar.out", TORCH_FN(at::native::polar_out));
  m.impl("smooth_l1_loss_backward.grad_input", TORCH_FN(at::native::smooth_l1_loss_backward_out));
}

}  // namespace rustdev
