// Kernels of operators that are bound in Rust for the types of their schemas: arguments become descriptors without boxes.
//
// A call of few elements costs half a microsecond less than through a box. Each type costs code, so only those are listed that
// models call at every step: by their names (compiled_names.txt), and pointwise operators, many of which are of one
// type, by their types.
#pragma once

#include <torch/library.h>

#include <string_view>

#include "operator_call.h"

namespace rustdev {

// Makes the kernel of an overload.
using TypedKernel = torch::CppFunction (*)(const Overload& overload);

// The kernel of an overload: of a pointwise operator, or by its name, without `aten::`; null where it is not listed.
TypedKernel find_typed(std::string_view name, const Overload& overload);

}  // namespace rustdev
