// Factories as single operators: a new device tensor and a kernel that fills it, without PyTorch's composition. PyTorch's own code
// handles other layouts and devices.
#pragma once

#include <c10/core/DefaultDtype.h>

#include "tensor.h"

namespace rustdev {

// The options that end the arguments of every factory, as its schema has them.
#define RD_OPTIONS                                                                                         \
  std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout, std::optional<at::Device> device, \
      std::optional<bool> pin_memory

// Uninitialised tensors of the device, without the dispatcher.
at::Tensor new_empty(at::IntArrayRef size, at::ScalarType dtype, at::Device device,
                     std::optional<at::MemoryFormat> memory_format = std::nullopt);
at::Tensor new_empty_strided(at::IntArrayRef size, at::IntArrayRef stride, at::ScalarType dtype, at::Device device);

// A new tensor of a factory with these options, which is still to be written. Throws where they ask for another layout or pinned
// memory.
at::Tensor new_plain(at::IntArrayRef size, at::ScalarType default_dtype, RD_OPTIONS);

// A new tensor as `empty_like` lays it out, or an undefined one where PyTorch's own code is to make it.
at::Tensor new_like(const at::Tensor& self, RD_OPTIONS, std::optional<at::MemoryFormat> memory_format);

// A factory of a size: `fill(tensor, values...)` writes what the arguments before or after the size say.
template <auto fill, class... Values>
at::Tensor filled(at::IntArrayRef size, at::ScalarType default_dtype, RD_OPTIONS, const Values&... values) {
  at::Tensor result = new_plain(size, default_dtype, dtype, layout, device, pin_memory);
  fill(result, values...);
  return result;
}

// A `*_like` factory: `fill(tensor, values...)` writes the new tensor. PyTorch's `native` makes the tensors that `new_like` does
// not.
template <auto fill, class... Values>
struct Like {
  using Native = at::Tensor (*)(const at::Tensor&, Values..., std::optional<at::ScalarType>, std::optional<at::Layout>,
                                std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat>);

  template <Native native>
  static at::Tensor call(const at::Tensor& self, Values... values, RD_OPTIONS, std::optional<at::MemoryFormat> memory_format) {
    at::Tensor result = new_like(self, dtype, layout, device, pin_memory, memory_format);
    if (C10_UNLIKELY(!result.defined())) {
      return native(self, values..., dtype, layout, device, pin_memory, memory_format);
    }
    fill(result, values...);
    return result;
  }
};

}  // namespace rustdev
