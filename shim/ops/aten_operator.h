// PyTorch's CPU kernels as tasks of the stream (tier `aten`), over boxed arguments and outputs that the call has made. The
// operators are declared in Rust (src/operators/task_table.rs), and bound by operators.cpp.
//
// Our threads compute the parts of a task. A task that is not cut may use the libraries' threads.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>

#include "rustdev_operators.h"

namespace rustdev {

// One operator. Never freed, because tasks refer to it.
struct AtenOperator {
  const char* name;
  c10::OperatorHandle functional;
  std::optional<c10::OperatorHandle> out;
  const rd_guard* guard;
  // Whether the guard checks values inside the task.
  bool guarded;
};

const AtenOperator* find_aten(const char* name, const rd_task& task);

// Enqueues the kernel over the boxed arguments and these results, some of which may be undefined.
void submit_boxed(const AtenOperator& op, torch::jit::Stack stack, at::ArrayRef<at::Tensor> outputs, const rd_cut& cut);

}  // namespace rustdev
