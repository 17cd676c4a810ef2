// Launches whose operands keep their own sizes: see lines.h.
#include "ops/lines.h"

#include <algorithm>

namespace rustdev {

bool launch_shaped(const Binding& binding, c10::ScalarType dtype, std::initializer_list<const at::Tensor*> outputs,
                   at::ArrayRef<const at::Tensor*> inputs, at::ArrayRef<at::Scalar> scalars) {
  if (!takes_dtype(binding, dtype)) {
    return false;
  }
  Launch launch;
  const auto add = [&](const at::Tensor* tensor) {
    if (tensor->defined()) {
      launch.input(*tensor);
    }
  };
  std::for_each(outputs.begin(), outputs.end(), add);
  launch.finish_outputs();
  std::for_each(inputs.begin(), inputs.end(), add);
  launch.scalars(scalars);
  return launch.run(binding.op, static_cast<int32_t>(dtype), (*outputs.begin())->device().index());
}

void launch_shaped_or_throw(const Binding& binding, c10::ScalarType dtype, std::initializer_list<const at::Tensor*> outputs,
                            at::ArrayRef<const at::Tensor*> inputs, at::ArrayRef<at::Scalar> scalars) {
  TORCH_CHECK_NOT_IMPLEMENTED(launch_shaped(binding, dtype, outputs, inputs, scalars), "\"", rd_op_name(binding.op),
                              "\" not implemented for '", dtype, "'");
}

}  // namespace rustdev
