// What an operator is bound to: its kernel, and the ways to the CPU fallback.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <optional>

#include "tensor.h"

namespace rustdev {

// One operator variant at run time: its kernel, and the way to the fallback.
struct Binding {
  const rd_op* op = nullptr;
  uint64_t dtypes = 0;
  std::optional<c10::OperatorHandle> functional, inplace, out;
};

// Whether the kernel takes a dtype.
inline bool takes_dtype(const Binding& binding, c10::ScalarType dtype) { return is_among(binding.dtypes, dtype); }

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

// The parts of a launch that are not operands of the iterator.
enum class Scalars {
  arguments,  // every argument that is not a tensor
  exact,      // as arguments; numbers must fit the dtype itself, not only what it is computed in
  checked,    // as arguments; the meta has looked at the numbers
  none,       // no scalars: the meta makes operands of the numbers
  zero,       // the one scalar 0
  loss,       // as arguments; a reduction, which the meta does not describe, is an operator of its own
};

// Refuses a kernel whose signature does not name the scalars that the operator's arguments become.
void check_scalars(const Binding& binding, Scalars scalars);

// The kernel of that name, for an operator without variants that go to the fallback.
Binding named_kernel(const char* name);
template <Name name>
// NOLINTNEXTLINE(bugprone-throwing-static-initialization): made while the module loads
inline const Binding binding_of = named_kernel(name.text);

}  // namespace rustdev
