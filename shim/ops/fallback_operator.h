// What the CPU fallback knows of an operator. The rules of which may fall back, and statistics, are in Rust:
// src/runtime/fallback.rs.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

#include "rustdev_operators.h"

namespace rustdev {

// Made at the operator's first call, lives to the end of the process.
struct FallbackOperator {
  explicit FallbackOperator(const c10::OperatorHandle& op);

  c10::OperatorName operator_name;
  std::string name;          // aten::sort.stable
  std::string wait;          // what its wait for the device is called in messages
  bool seeded;               // draws random numbers
  int generator_argument;    // index of its Generator argument, or -1
  bool own_device_lists;     // its lists may hold tensors of several devices
  const rd_guard* guard;     // of what its kernel leaves unchecked, or null
  const rd_fallback* rules;  // and statistics
};

const FallbackOperator& fallback_operator(const c10::OperatorHandle& op);

}  // namespace rustdev
