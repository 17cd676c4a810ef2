// Lookup of operators by name, and the check of a kernel's scalars against a schema.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "rustdev.h"

namespace rustdev {

// The qualified name of an operator; `name` may omit "aten::" but not another library's name.
c10::OperatorName operator_name(const char* name);

// The operator of that name; throws if there is none.
c10::OperatorHandle find_operator(const char* name);

// Throws if the scalars in the kernel's signature differ from those that the schema's arguments become.
void check_scalars(const rd_op* op, const c10::FunctionSchema& schema);

}  // namespace rustdev
