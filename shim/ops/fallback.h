// Interface of the zero-copy CPU fallback for other parts of the shim.
#pragma once

#include <ATen/core/boxing/BoxedKernel.h>

#include "rustdev_operators.h"

namespace rustdev {

// The record of an operator (src/abi/rd_fallback.rs), which is never freed.
const rd_fallback* fallback_operator(const c10::OperatorHandle& op);

// Runs an operator's CPU kernel on aliases of device memory, for arguments in boxed form. `expects_error`: for its error, even
// where the rules forbid the fallback.
template <bool expects_error>
void cpu_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// Refuses arguments, with values, that the kernel would not survive, and replaces one that it does not take as it is. The guard is
// in Rust: src/operators/guards.rs.
void check_arguments(const rd_guard* guard, const c10::FunctionSchema& schema, torch::jit::Stack& stack);

// Registers the fallback for every operator that has a CPU kernel and no kernel on the device.
void register_fallback();

}  // namespace rustdev
