// Kernels of operators that are bound in Rust for the types of their schemas: arguments become descriptors without boxes.
//
// A call of few elements costs half a microsecond less than through a box. Each type costs code, so only those are listed that
// models call at every step: by their names, and operators over lists of tensors, many of which are of one type, by their types.
#pragma once

#include <torch/library.h>

#include "operator_call.h"

namespace rustdev {

// Makes the kernel of an overload.
using TypedKernel = torch::CppFunction (*)(const Overload& overload);

// The kernel of an operator, which is taken off the list; null where it is not listed.
TypedKernel take_typed(const c10::OperatorHandle& op);

// Throws where an operator is still listed.
void check_all_taken();

}  // namespace rustdev
