// Convolutions, forward and backward, as tasks that are divided into parts. src/operators/convolution.rs checks the arguments and
// makes the outputs. Arguments may have a wider dtype than the outputs; results are rounded.
#pragma once

#include "rustdev_operators.h"

namespace rustdev {

// Enqueues the task over arguments and outputs, some of which may be undefined.
using DividedTask = void (*)(const rd_value* arguments, at::ArrayRef<at::Tensor> outputs, const rd_division& division);

// The divided task of an operator, or null.
DividedTask find_divided_task(std::string_view name);

}  // namespace rustdev
