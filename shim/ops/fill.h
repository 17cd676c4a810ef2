// Fills, and the check of the number that they write.
#pragma once

#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>

namespace rustdev {

// Refuses a value that the dtype cannot hold, as PyTorch does.
void check_value(const c10::Scalar& value, c10::ScalarType dtype);

}  // namespace rustdev
