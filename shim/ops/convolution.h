// Tasks over the arguments of a call that divides them: convolutions in all directions, for which src/operators/convolutions.rs
// checks and makes the outputs.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "rustdev_operators.h"

namespace rustdev {

// Enqueues it over a call's arguments and outputs, some of which may be undefined.
using DividedTask = void (*)(const rd_value* arguments, at::ArrayRef<at::Tensor> outputs, const rd_division& division);

// That of an operator, or null.
DividedTask find_divided_task(std::string_view name);

}  // namespace rustdev
