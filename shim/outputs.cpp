// Parts of outputs.h that do not depend on the operator.
#include "outputs.h"
#include "ops/factory.h"

#include <ATen/native/Resize.h>

namespace rustdev {

at::Tensor new_output(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
  TORCH_CHECK(options.device().type() == device_type,
              "Expected all tensors to be on the same device, but found at least two devices, ", c10::Device(device_type), " and ",
              options.device(), "!");
  const at::ScalarType dtype = c10::typeMetaToScalarType(options.dtype());
  if (strides.empty()) {
    return new_empty(sizes, dtype, options.device(), options.memory_format_opt());
  }
  return new_empty_strided(sizes, strides, dtype, options.device());
}

void resize_out(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ", options.dtype(), ", but got ", out.dtype(),
              " instead");
  TORCH_CHECK(options.device() == out.device(), "Expected out tensor to have device ", options.device(), ", but got ", out.device(),
              " instead");
  if (!at::native::resize_output(out, sizes)) {
    return;
  }
  if (!strides.empty()) {
    out.as_strided_(sizes, strides);
  } else if (options.memory_format_opt().has_value()) {
    out.unsafeGetTensorImpl()->empty_tensor_restride(*options.memory_format_opt());
  }
}

void check_inplace(const at::Tensor& self, at::IntArrayRef sizes, const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == self.dtype(), "Bad in-place call: input tensor dtype ", self.dtype(), " and output tensor dtype ",
              options.dtype(), " should match");
  TORCH_CHECK(options.device() == self.device(), "Bad in-place call: input tensor device ", self.device(),
              " and output tensor device ", options.device(), " should match");
  TORCH_CHECK(sizes == self.sizes(), "Bad in-place call: input tensor size ", self.sizes(), " and output tensor size ", sizes,
              " should match");
}

}  // namespace rustdev
