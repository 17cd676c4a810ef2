// Interface of the zero-copy CPU fallback for other parts of the shim.
#pragma once

#include <ATen/core/boxing/BoxedKernel.h>
#include <ATen/core/boxing/impl/boxing.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

#include "rustdev_operators.h"

namespace rustdev {

// What is known of an operator (src/abi/rd_fallback.rs); it lives forever.
const rd_fallback* fallback_operator(const c10::OperatorHandle& op);

// Runs an operator's CPU kernel on aliases of device memory, for arguments in boxed form.
void cpu_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// The same for a call in unboxed form of dense tensors, from an operator that has a kernel but not for these arguments.
template <class Result, class... Args>
Result call_fallback(const std::optional<c10::OperatorHandle>& op, Args... args) {
  TORCH_INTERNAL_ASSERT(op.has_value(), "rustdev: an operator is bound without a way to its fallback");
  return c10::impl::BoxedKernelWrapper<Result(Args...)>::call(c10::BoxedKernel::makeFromFunction<&cpu_fallback>(), *op,
                                                              c10::DispatchKeySet(), args...);
}

}  // namespace rustdev
