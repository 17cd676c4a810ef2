// Unboxed kernels of operators that are bound in Rust: templates over the types of a schema, which make descriptors without
// IValues.
//
// An unboxed call costs half a microsecond less. Each instantiation costs code, so only operators that models call at every step
// have one. They are listed by name (compiled_names.txt); pointwise operators, many of which share a type, are listed by type.
#pragma once

#include "operator_call.h"

namespace rustdev {

// Makes the kernel of an overload.
using TypedKernel = torch::CppFunction (*)(const Overload& overload);

// The maker of an overload's kernel, by type for pointwise operators, else by name without `aten::`; null if it is not listed.
TypedKernel find_typed(std::string_view name, const Overload& overload);

}  // namespace rustdev
