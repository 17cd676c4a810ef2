// What an operator is bound to: its kernel, and the ways to the CPU fallback.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <optional>

#include "tensor.h"

namespace rustdev {

// A kernel, and the dtypes that it computes in.
struct BoundKernel {
  const rd_op* op = nullptr;
  uint64_t dtypes = 0;
};

// One operator variant at run time: its kernel, and the way to the fallback.
struct Binding : BoundKernel {
  std::optional<c10::OperatorHandle> functional, inplace, out;
};

// Whether the kernel takes a dtype.
inline bool takes_dtype(const BoundKernel& binding, c10::ScalarType dtype) { return is_among(binding.dtypes, dtype); }

struct Names {
  const char* functional;
  const char* inplace;
  const char* out;
  const char* kernel;
};

// The full name of an operator, from that without "aten::" or with another library's name.
c10::OperatorName operator_name(const char* name);

// The operator of that name; an error where there is none.
c10::OperatorHandle find_operator(const char* name);

// Looks the kernel up and fills the binding.
void find_kernel(Binding& binding, const Names& names);

// Refuses a kernel whose signature does not name the scalars that arguments of a schema become.
void check_scalars(const rd_op* op, const c10::FunctionSchema& schema);

// The kernel of that name, for an operator without variants that go to the fallback.
Binding named_kernel(const char* name);
template <Name name>
// NOLINTNEXTLINE(bugprone-throwing-static-initialization): made while the module loads
inline const Binding binding_of = named_kernel(name.text);

}  // namespace rustdev
