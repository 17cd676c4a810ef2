// Uninitialised tensors of the device.
#pragma once

#include "tensor.h"

namespace rustdev {

// New tensors, without the dispatcher.
at::Tensor new_empty(at::IntArrayRef size, at::ScalarType dtype, at::Device device,
                     std::optional<at::MemoryFormat> memory_format = std::nullopt);
at::Tensor new_empty_strided(at::IntArrayRef size, at::IntArrayRef stride, at::ScalarType dtype, at::Device device);

}  // namespace rustdev
