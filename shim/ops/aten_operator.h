// PyTorch's CPU kernels as tasks of the stream (the second tier), over boxed arguments and outputs that the call has made. The
// operators are declared in Rust (src/operators/task_table.rs), and bound by operators.cpp.
//
// A task divides the first dimension among our threads where all operands have it: batches of images or matrices. One matrix takes
// the libraries' own threads where it is large.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>

#include "rustdev_operators.h"

namespace rustdev {

// One operator. Tasks refer to it: it lives forever.
struct AtenOperator {
  const char* name;
  rd_task task;
  c10::OperatorHandle functional;
  std::optional<c10::OperatorHandle> out;
  const rd_guard* guard;
};

const AtenOperator* find_aten(const char* name, const rd_task& task);

// Where the kernel has to compute the 16 bit floats of these arguments in Float, as other accelerators do, widens them and returns
// their dtype.
std::optional<c10::ScalarType> widen(const AtenOperator& op, torch::jit::Stack& stack);

// Rounds the results of a call to a dtype.
void narrow(const AtenOperator& op, torch::jit::Stack& stack, c10::ScalarType dtype);

// Checks the boxed arguments by the guard, which may replace them.
void check_arguments(const AtenOperator& op, torch::jit::Stack& stack);

// Enqueues the kernel over the boxed arguments and these results, some of which may be undefined; cut as is given, or by the batch.
void submit_boxed(const AtenOperator& op, torch::jit::Stack stack, at::ArrayRef<at::Tensor> outputs,
                  const std::optional<rd_cut>& given);

}  // namespace rustdev
