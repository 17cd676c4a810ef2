// Policy of the CPU fallback: which operators may fall back, and statistics of those that did.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "rustdev.h"

namespace rustdev {

// One operator as the fallback knows it. Made at its first call, lives to the end of the process.
struct FallbackOperator {
  explicit FallbackOperator(const c10::OperatorHandle& op);

  c10::OperatorName operator_name;
  std::string name;        // aten::sort.stable
  std::string wait;        // what its wait for the device is called in messages
  bool seeded;             // draws random numbers
  int generator_argument;  // index of its Generator argument, or -1
  bool own_device_lists;   // its lists may hold tensors of several devices
  const rd_guard* guard;   // of what its kernel leaves unchecked, or null
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> nanoseconds{0};
};

FallbackOperator& fallback_operator(const c10::OperatorHandle& op);

// Throws, warns or does nothing, as mode and lists say of this operator.
void check_policy(const FallbackOperator& op);

}  // namespace rustdev
