// Factories: empty tensors from the device's allocator, on the given or the current device.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/empty_like_native.h>
#include <c10/core/Allocator.h>
#include <torch/library.h>

#include "ops/factory.h"

namespace rustdev {
namespace {

constexpr c10::DispatchKeySet device_keys{c10::DispatchKey::PrivateUse1};

c10::Allocator* allocator() {
  static c10::Allocator* const device_allocator = c10::GetAllocator(device_type);
  return device_allocator;
}

void check_options(std::optional<at::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  const at::Layout wanted = layout.value_or(at::kStrided);
  TORCH_CHECK(wanted == at::kStrided, "rustdev: empty does not take the layout ", wanted);
}

at::Device on(std::optional<at::Device> device) { return device.value_or(at::Device(device_type)); }

// Fills uninitialised memory under torch.use_deterministic_algorithms (torch.utils.deterministic.fill_uninitialized_memory).
at::Tensor marked(at::Tensor tensor) {
  auto& context = at::globalContext();
  if (C10_UNLIKELY(context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory())) {
    at::native::fill_empty_deterministic_(tensor);
  }
  return tensor;
}

at::Tensor empty(at::IntArrayRef size, RD_OPTIONS, std::optional<at::MemoryFormat> memory_format) {
  check_options(layout, pin_memory);
  return marked(new_empty(size, c10::dtype_or_default(dtype), on(device), memory_format));
}

at::Tensor empty_like(const at::Tensor& self, RD_OPTIONS, std::optional<at::MemoryFormat> memory_format) {
  at::Tensor result = new_like(self, dtype, layout, device, pin_memory, memory_format);
  if (C10_UNLIKELY(!result.defined())) {
    return at::native::empty_like(self, dtype, layout, device, pin_memory, memory_format);
  }
  return marked(std::move(result));
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, RD_OPTIONS) {
  check_options(layout, pin_memory);
  return marked(new_empty_strided(size, stride, c10::dtype_or_default(dtype), on(device)));
}

// Zeros without memory, for zero tangents of forward-mode autograd. PyTorch's ZeroTensor key materialises them for operators that
// do not support them.
at::Tensor efficient_zeros(at::IntArrayRef size, RD_OPTIONS) {
  check_options(layout, pin_memory);
  at::Device place = on(device);
  if (!place.has_index()) {
    place.set_index(static_cast<c10::DeviceIndex>(rd_device_current()));
  }
  at::native::ZeroTensorAllocator no_memory(place);
  return at::detail::empty_generic(size, &no_memory, device_keys.add(c10::DispatchKey::ZeroTensor), c10::dtype_or_default(dtype),
                                   std::nullopt);
}

}  // namespace

at::Tensor new_empty(at::IntArrayRef size, at::ScalarType dtype, at::Device device, std::optional<at::MemoryFormat> memory_format) {
  const DeviceScope scope(device);
  return at::detail::empty_generic(size, allocator(), device_keys, dtype, memory_format);
}

at::Tensor new_empty_strided(at::IntArrayRef size, at::IntArrayRef stride, at::ScalarType dtype, at::Device device) {
  const DeviceScope scope(device);
  return at::detail::empty_strided_generic(size, stride, allocator(), device_keys, dtype);
}

at::Tensor new_plain(at::IntArrayRef size, at::ScalarType default_dtype, RD_OPTIONS) {
  check_options(layout, pin_memory);
  return new_empty(size, dtype.value_or(default_dtype), on(device));
}

at::Tensor new_like(const at::Tensor& self, RD_OPTIONS, std::optional<at::MemoryFormat> memory_format) {
  const at::Device own = self.device();
  const bool here = !device || (device->type() == own.type() && (!device->has_index() || device->index() == own.index()));
  if (C10_UNLIKELY(!here || pin_memory.value_or(false) || layout.value_or(self.layout()) != at::kStrided || !on_device(self) ||
                   self.layout() != at::kStrided)) {
    return {};
  }
  // A device without a number is the current one.
  if (C10_UNLIKELY(device && !device->has_index() && own.index() != rd_device_current())) {
    return {};
  }
  const at::ScalarType wanted = dtype.value_or(self.scalar_type());
  if (memory_format.value_or(at::MemoryFormat::Preserve) != at::MemoryFormat::Preserve) {
    return new_empty(self.sizes(), wanted, own, memory_format);
  }
  // Contiguous tensors too: a dimension of size 1 keeps its stride, which decides the layout of further results.
  if (C10_LIKELY(self.is_non_overlapping_and_dense())) {
    return new_empty_strided(self.sizes(), self.strides(), wanted, own);
  }
  return new_empty_strided(self.sizes(), at::infer_dense_strides(self.sizes(), self.strides()), wanted, own);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_like", TORCH_FN(empty_like));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("_efficientzerotensor", TORCH_FN(efficient_zeros));
}

}  // namespace rustdev
