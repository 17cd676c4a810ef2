// Guards of PyTorch's CPU kernels, which are in Rust: src/operators/guards.rs.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include "rustdev_operators.h"

namespace rustdev {

// The guard of an overload, or null.
const rd_guard* find_guard(const c10::FunctionSchema& schema);

// Refuses arguments that the kernel would not survive, and replaces those that it does not take as they are. Before a task tensors
// have no values yet: sizes and dtypes are checked then. `guard`: null lets everything through.
void check_arguments(const rd_guard* guard, const c10::FunctionSchema& schema, torch::jit::Stack& stack, bool has_values);

}  // namespace rustdev
