// Operators for the kernels in Python (python/rustdev/_ops/): launches of kernels of the operator table, and synchronous reads.
#include <ATen/MemoryOverlap.h>

#include "runtime/sync_debug.h"

namespace rustdev {
namespace {

const rd_op* kernel_named(std::string_view name) {
  const rd_op* const op = rd_op_find(std::string(name).c_str());
  TORCH_CHECK_VALUE(op != nullptr, "the operator table has no kernel ", name);
  return op;
}

bool takes_dtype(std::string_view kernel, at::ScalarType dtype) { return is_among(rd_op_dtypes(kernel_named(kernel)), dtype); }

// Operands keep their sizes and strides; the computing dtype is the first input's. Nothing is launched if the first output is
// empty.
void launch_kernel(std::string_view kernel, at::TensorList outputs, at::TensorList inputs, at::ArrayRef<at::Scalar> scalars) {
  const rd_op* const op = kernel_named(kernel);
  TORCH_CHECK_VALUE(!outputs.empty() && !inputs.empty() && outputs.size() + inputs.size() <= Launch::max_operands &&
                        scalars.size() <= Launch::max_scalars,
                    kernel, ": got ", outputs.size(), " outputs, ", inputs.size(), " inputs and ", scalars.size(), " scalars");
  Launch launch;
  for (const at::TensorList operands : {outputs, inputs}) {
    for (const at::Tensor& operand : operands) {
      TORCH_CHECK_VALUE(on_device(operand) && operand.layout() == at::kStrided && operand.dim() <= Launch::max_dims, kernel,
                        ": expected dense tensors of the device");
      launch.input(operand);
    }
    if (operands.data() == outputs.data()) {
      launch.finish_outputs();
    }
  }
  for (const at::Tensor& output : outputs) {
    at::assert_no_internal_overlap(output);
    for (const at::Tensor& input : inputs) {
      at::assert_no_partial_overlap(output, distinct(input));
    }
  }
  launch.scalars(scalars);
  if (outputs[0].numel() != 0) {
    launch.run_or_throw(op, static_cast<int32_t>(inputs[0].scalar_type()), outputs[0].device().index());
  }
}

// `reader`: the operator that waits.
int64_t awaited_number(const at::Tensor& number, std::string_view reader) {
  return awaited<int64_t>(number, std::string(reader).c_str());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(rustdev, m) {
  m.def("_awaited(Tensor number, str reader) -> int");
  m.def("_launch(str kernel, Tensor(a!)[] outputs, Tensor[] inputs, Scalar[] scalars) -> ()");
  m.def("_takes_dtype(str kernel, ScalarType dtype) -> bool", TORCH_FN(takes_dtype));
}

TORCH_LIBRARY_IMPL(rustdev, PrivateUse1, m) {
  m.impl("_awaited", TORCH_FN(awaited_number));
  m.impl("_launch", TORCH_FN(launch_kernel));
}

TORCH_LIBRARY_IMPL(rustdev, AutogradPrivateUse1, m) {
  m.impl("_awaited", torch::CppFunction::makeFallthrough());
  m.impl("_launch", torch::CppFunction::makeFallthrough());
}

}  // namespace rustdev
