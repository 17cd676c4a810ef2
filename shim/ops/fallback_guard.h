// Guards of PyTorch's CPU kernels, which are in Rust: src/operators/guards.rs.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include "rustdev_operators.h"

namespace rustdev {

// Replaces arguments, of which the stack ends in so many, by what a guard wants of them.
void change_arguments(at::ArrayRef<rd_change> changes, torch::jit::Stack& stack, size_t arguments);

// Refuses arguments, with values, that the kernel would not survive, and replaces those that it does not take as they are.
void check_arguments(const rd_guard* guard, const c10::FunctionSchema& schema, torch::jit::Stack& stack);

// Refuses a sparse tensor on the CPU, an argument or a result of an operator's call, that its kernel would not survive.
void check_sparse(const rd_fallback* op, const at::Tensor& tensor);

}  // namespace rustdev
