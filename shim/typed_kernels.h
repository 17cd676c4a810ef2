// Kernels of operators that are bound in Rust for the types of their schemas: arguments become descriptors without boxes.
//
// A call of few elements costs half a microsecond less than through a box. Each type costs code, so only those are listed that
// models call at every step.
#pragma once

#include <torch/library.h>

#include "operator_call.h"

namespace rustdev {

// Makes the kernel of an overload.
using TypedKernel = torch::CppFunction (*)(const Overload& overload);

// Null where an operator is not listed.
TypedKernel find_typed(const c10::OperatorName& name);

}  // namespace rustdev
