// PyTorch's CPU kernels as tasks of the stream (the second tier), over boxed arguments and outputs that the call has made. The
// operators are declared in Rust (src/operators/task_table.rs), and bound by operators.cpp.
//
// Parts of a task are computed by our threads. What is not cut may take the libraries' own.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>

#include "rustdev_operators.h"

namespace rustdev {

// One operator. Tasks refer to it: it lives forever.
struct AtenOperator {
  const char* name;
  c10::OperatorHandle functional;
  std::optional<c10::OperatorHandle> out;
  const rd_guard* guard;
  // Whether the guard looks at values in the task.
  bool guarded;
};

const AtenOperator* find_aten(const char* name, const rd_task& task);

// Enqueues the kernel over the boxed arguments and these results, some of which may be undefined.
void submit_boxed(const AtenOperator& op, torch::jit::Stack stack, at::ArrayRef<at::Tensor> outputs, const rd_cut& cut);

}  // namespace rustdev
