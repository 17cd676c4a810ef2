// Tasks that a call divides: convolutions in all directions, for which src/operators/convolutions.rs checks the arguments and makes
// the outputs. Arguments may be wider than the outputs, to which results are rounded.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "rustdev_operators.h"

namespace rustdev {

// Enqueues it over arguments and outputs, some of which may be undefined.
using DividedTask = void (*)(const rd_value* arguments, at::ArrayRef<at::Tensor> outputs, const rd_division& division);

// That of an operator, or null.
DividedTask find_divided_task(std::string_view name);

}  // namespace rustdev
