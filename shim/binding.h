// Operators by their names, and whether a kernel gets the scalars of one.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "rustdev.h"

namespace rustdev {

// The full name of an operator, from that without "aten::" or with another library's name.
c10::OperatorName operator_name(const char* name);

// The operator of that name; an error where there is none.
c10::OperatorHandle find_operator(const char* name);

// Refuses a kernel whose signature does not name the scalars that arguments of a schema become.
void check_scalars(const rd_op* op, const c10::FunctionSchema& schema);

}  // namespace rustdev
