// Guards of PyTorch's CPU kernels, which are in Rust: src/operators/guards.rs.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include "rustdev_operators.h"

namespace rustdev {

// Refuses arguments, with values, that the kernel would not survive, and replaces one that it does not take as it is.
void check_arguments(const rd_guard* guard, const c10::FunctionSchema& schema, torch::jit::Stack& stack);

// Refuses a sparse tensor on the CPU, an argument or a result of an operator's call, that its kernel would not survive.
void check_sparse(const rd_fallback* op, const at::Tensor& tensor);

}  // namespace rustdev
