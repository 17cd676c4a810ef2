// Launches whose operands keep their own sizes.
#pragma once

#include "structured.h"

namespace rustdev {

// Launches the kernel over the tensors that are defined. False where it does not take the dtype: nothing was done.
[[nodiscard]] bool launch_shaped(const Binding& binding, c10::ScalarType dtype, std::initializer_list<const at::Tensor*> outputs,
                                 at::ArrayRef<const at::Tensor*> inputs, at::ArrayRef<at::Scalar> scalars);

// The same, and an error where the kernel does not take the dtype.
void launch_shaped_or_throw(const Binding& binding, c10::ScalarType dtype, std::initializer_list<const at::Tensor*> outputs,
                            at::ArrayRef<const at::Tensor*> inputs, at::ArrayRef<at::Scalar> scalars);

}  // namespace rustdev
