// Views, resize_ and set_: they change sizes, strides and storages but no element, so they wait for no stream.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/ops/_has_compatible_shallow_copy_type_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>

#include "ops/tier.h"
#include "tensor.h"

namespace rustdev {
namespace {

// Sets a tensor's sizes, strides and offset. Grows the storage first, keeping its contents, so that a tensor never exceeds its
// memory; if the allocation throws, the tensor is unchanged.
void set_geometry(at::TensorImpl* impl, at::IntArrayRef size, at::OptionalIntArrayRef stride, int64_t offset) {
  const bool is_empty = std::find(size.begin(), size.end(), 0) != size.end();
  const auto itemsize = impl->itemsize();
  const auto elements = static_cast<size_t>(offset);
  const size_t bytes = stride ? at::detail::computeStorageNbytes(size, *stride, itemsize, elements)
                              : at::detail::computeStorageNbytesContiguous(size, itemsize, elements);
  const c10::Storage& storage = impl->unsafe_storage();
  if (!is_empty && bytes > storage.nbytes()) {
    at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(storage, bytes);
  }
  impl->set_storage_offset(offset);
  if (stride) {
    impl->set_sizes_and_strides(size, *stride);
  } else {
    impl->set_sizes_contiguous(size);
  }
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> memory_format) {
  at::detail::check_size_nonnegative(size);
  auto* impl = self.unsafeGetTensorImpl();
  const size_t old_bytes = self.storage().nbytes();
  if (impl->sizes() != size) {
    set_geometry(impl, size, std::nullopt, impl->storage_offset());
  }
  if (memory_format) {
    TORCH_CHECK(*memory_format != at::MemoryFormat::Preserve, "Unsupported memory format", *memory_format);
    impl->empty_tensor_restride(*memory_format);
  }
  auto& context = at::globalContext();
  if (C10_UNLIKELY(context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory())) {
    at::native::fill_resize_deterministic_(self, static_cast<int64_t>(old_bytes));
  }
  return self;  // NOLINT(bugprone-return-const-ref-from-parameter): what the schema asks for
}

// For composite kernels with `out=`: warns if an output with elements is resized.
const at::Tensor& resize_output(const at::Tensor& self, at::IntArrayRef size, at::Device device) {
  TORCH_CHECK(self.device() == device, "out Tensor doesn't have the correct device set");
  at::native::resize_output(self, size);
  return self;  // NOLINT(bugprone-return-const-ref-from-parameter): what the schema asks for
}

at::Tensor& set_storage_offset_(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size,
                                at::IntArrayRef stride) {
  auto* impl = self.unsafeGetTensorImpl();
  const c10::Storage before = impl->unsafe_storage();
  at::native::checkSetStorage(self, std::move(source), offset, size, stride);
  const auto strides = stride.data() == nullptr ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(stride);
  try {
    set_geometry(impl, size, strides, offset);
  } catch (...) {
    impl->set_storage_keep_dtype(before);
    throw;
  }
  return self;
}

at::Tensor& set_storage_(at::Tensor& self, at::Storage source) {
  const auto length = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_storage_offset_(self, std::move(source), 0, {length}, {});
}

at::Tensor& set_empty_(at::Tensor& self) {
  const DeviceScope scope(self.device());
  c10::Storage storage(c10::Storage::use_byte_size_t{}, 0, c10::GetAllocator(device_type), /*resizable=*/true);
  return set_storage_offset_(self, std::move(storage), 0, {0}, {});
}

bool is_dense(const at::Tensor& tensor) {
  using c10::BackendComponent;
  constexpr c10::DispatchKeySet backends({BackendComponent::CPUBit, BackendComponent::CUDABit, BackendComponent::MPSBit,
                                          BackendComponent::HIPBit, BackendComponent::XPUBit, BackendComponent::HPUBit,
                                          BackendComponent::MTIABit, BackendComponent::PrivateUse1Bit});
  return tensor.key_set().has_any(c10::DispatchKeySet(c10::DispatchKey::Dense)) && tensor.key_set().has_any(backends);
}

// True if `self.data = from` is allowed in place, also for `Module.to`, which otherwise makes new parameters. PyTorch's rule,
// extended by the device: dense tensors of all listed backends are compatible.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  return at::native::_has_compatible_shallow_copy_type(self, from) || (is_dense(self) && is_dense(from));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  impl(m, "aten", "_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
  impl(m, "aten", "as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  impl(m, "aten", "view", TORCH_FN(at::native::view));
  impl(m, "aten", "_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  impl(m, "aten", "unfold", TORCH_FN(at::native::unfold));
  impl(m, "aten", "view_as_real", TORCH_FN(at::native::view_as_real));
  impl(m, "aten", "view_as_complex", TORCH_FN(at::native::view_as_complex));
  impl(m, "aten", "resize_", TORCH_FN(resize_));
  impl(m, "aten", "set_", TORCH_FN(set_empty_));
  impl(m, "aten", "set_.source_Storage", TORCH_FN(set_storage_));
  impl(m, "aten", "set_.source_Storage_storage_offset", TORCH_FN(set_storage_offset_));
  impl(m, "aten", "set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  impl(m, "composite", "_resize_output_", TORCH_FN(resize_output));
}

// At the autograd key, where PyTorch's composite kernel for other devices runs: before a subclass's `__torch_dispatch__`.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
}

}  // namespace rustdev
