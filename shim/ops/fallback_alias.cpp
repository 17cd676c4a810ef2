// Aliases: see fallback_alias.h.
#include "ops/fallback_alias.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/quantized/QTensorImpl.h>
#include <ATen/quantized/Quantizer.h>
#include <c10/core/Allocator.h>

#include <cstring>

#include "runtime/sync_debug.h"

namespace rustdev {
namespace {

using c10::BackendComponent;
using c10::DispatchKey;

void release_storage(void* context) { c10::raw::intrusive_ptr::decref(static_cast<c10::intrusive_ptr_target*>(context)); }

void copy_bits(const at::Tensor& from, const at::Tensor& to) {
  to._set_conj(from.is_conj());
  to._set_neg(from.is_neg());
}

// A tensor of the kind of `model` over another storage, with the model's geometry.
at::Tensor dense_like(const at::Tensor& model, c10::Storage storage, BackendComponent backend) {
  const auto keys = [&](DispatchKey kind) { return c10::DispatchKeySet(key_of(kind, backend)); };
  if (C10_UNLIKELY(model.is_nested())) {
    auto* impl = at::native::get_nested_tensor_impl(model);
    // AutogradNestedTensor is needed: otherwise composites of dense tensors are chosen, which read sizes.
    return at::detail::make_tensor<at::native::NestedTensorImpl>(
        std::move(storage), keys(DispatchKey::NestedTensor).add(DispatchKey::AutogradNestedTensor), model.dtype(),
        impl->get_nested_sizes(), impl->get_nested_strides(), impl->get_storage_offsets());
  }
  const at::Tensor tensor =
      C10_UNLIKELY(model.is_quantized())
          ? at::detail::make_tensor<at::QTensorImpl>(std::move(storage), keys(DispatchKey::Quantized), model.dtype(),
                                                     static_cast<at::QTensorImpl*>(model.unsafeGetTensorImpl())->quantizer())
          : at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys(DispatchKey::Dense), model.dtype());
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(model.sizes(), model.strides(), model.storage_offset());
  if (C10_UNLIKELY(model.unsafeGetTensorImpl()->is_wrapped_number())) {
    impl->set_wrapped_number(true);
  }
  copy_bits(model, tensor);
  return tensor;
}

// Sets the members of a sparse tensor to `convert` of another's.
template <class Convert>
void set_members(const at::Tensor& to, const at::Tensor& from, const Convert& convert) {
  if (from.is_sparse()) {
    auto* source = static_cast<at::SparseTensorImpl*>(from.unsafeGetTensorImpl());
    auto* target = static_cast<at::SparseTensorImpl*>(to.unsafeGetTensorImpl());
    const at::Tensor indices = convert(source->indices()), values = convert(source->values());
    target->raw_resize_(source->sparse_dim(), source->dense_dim(), from.sizes());
    target->set_indices_and_values_unsafe(indices, values);
    target->set_coalesced(source->coalesced());
  } else {
    auto* source = static_cast<at::SparseCsrTensorImpl*>(from.unsafeGetTensorImpl());
    static_cast<at::SparseCsrTensorImpl*>(to.unsafeGetTensorImpl())
        ->set_member_tensors(convert(source->compressed_indices()), convert(source->plain_indices()), convert(source->values()),
                             from.sizes());
  }
}

// A sparse tensor like `model`, with `convert` of its members.
template <class Convert>
at::Tensor sparse_like(const at::Tensor& model, BackendComponent backend, at::Device device, const Convert& convert) {
  const auto keys = [&](DispatchKey kind) { return c10::DispatchKeySet(key_of(kind, backend)); };
  const at::Tensor tensor =
      model.is_sparse()
          ? at::detail::make_tensor<at::SparseTensorImpl>(keys(DispatchKey::Sparse), model.dtype())
          : at::detail::make_tensor<at::SparseCsrTensorImpl>(keys(DispatchKey::SparseCsr), device, model.layout(), model.dtype());
  set_members(tensor, model, convert);
  return tensor;
}

// New device memory with the bytes of a host block; null: uninitialised. Waits for the stream, because queued tasks may still use
// cached memory.
c10::DataPtr copy_in(const void* data, size_t bytes, at::Device device) {
  const DeviceScope scope(device);
  c10::DataPtr pointer = c10::GetAllocator(device_type)->allocate(bytes);
  if (bytes != 0 && data != nullptr) {
    constexpr const char* name = "an operator that PyTorch's CPU kernel computes";
    const HostWait wait({RD_WAIT_FALLBACK, rd_device_current(), name});
    synchronize_current_stream(rd_device_current(), name);
    const HostAccess access;
    std::memcpy(pointer.get(), data, bytes);
  }
  return pointer;
}

}  // namespace

bool is_sparse_layout(const at::Tensor& tensor) {
  return tensor.is_sparse() || tensor.unsafeGetTensorImpl()->is_sparse_compressed();
}

at::Tensor Aliases::to_cpu(const at::Tensor& tensor) {
  for (const TensorPair& pair : tensors_) {
    if (pair.device.is_same(tensor)) {
      return pair.cpu;
    }
  }
  const bool is_sparse = is_sparse_layout(tensor);
  TORCH_CHECK_NOT_IMPLEMENTED(is_sparse || tensor.has_storage(), rd_backend_name(),
                              ": the CPU fallback does not take tensors of layout ", tensor.layout());
  at::Tensor alias = C10_UNLIKELY(is_sparse) ? sparse_like(tensor, backend_, at::Device(type()),
                                                           [this](const at::Tensor& member) { return to_cpu(member); })
                                             : dense_like(tensor, storage_to_cpu(tensor.storage()), backend_);
  if (C10_UNLIKELY(tensor.requires_grad())) {
    // Some kernels compute more results if a backward needs them.
    alias.unsafeGetTensorImpl()->set_requires_grad(true);
  }
  tensors_.push_back({tensor, alias});
  return alias;
}

c10::Storage Aliases::storage_to_cpu(const c10::Storage& storage) {
  for (const StoragePair& pair : storages_) {
    if (pair.device.unsafeGetStorageImpl() == storage.unsafeGetStorageImpl()) {
      return pair.cpu;
    }
  }
  // A storage of the same memory, which keeps the device storage alive.
  auto* impl = storage.unsafeGetStorageImpl();
  void* const data = backend_ == cpu_backend ? impl->mutable_data() : nullptr;
  c10::raw::intrusive_ptr::incref(impl);
  c10::DataPtr pointer(data, static_cast<c10::intrusive_ptr_target*>(impl), &release_storage, at::Device(type()));
  c10::Storage alias(c10::Storage::use_byte_size_t{}, impl->nbytes(), std::move(pointer), c10::GetAllocator(type()),
                     /*resizable=*/true);
  storages_.push_back({storage, alias, alias.mutable_data(), alias.nbytes()});
  return alias;
}

c10::Storage Aliases::storage_to_device(const c10::Storage& storage, at::Device device) {
  for (const StoragePair& pair : storages_) {
    if (pair.cpu.unsafeGetStorageImpl() == storage.unsafeGetStorageImpl()) {
      return pair.device;
    }
  }
  const size_t bytes = storage.nbytes();
  c10::Storage result(c10::Storage::use_byte_size_t{}, bytes, copy_in(storage.data(), bytes, device),
                      c10::GetAllocator(device_type), /*resizable=*/true);
  storages_.push_back({result, storage, storage.mutable_data(), bytes});
  return result;
}

at::Tensor Aliases::to_device(const at::Tensor& result, at::Device device) {
  if (!result.defined() || result.device().type() != type()) {
    return result;
  }
  for (const TensorPair& pair : tensors_) {
    if (pair.cpu.is_same(result)) {
      return pair.device;
    }
  }
  if (C10_UNLIKELY(is_sparse_layout(result))) {
    return sparse_like(result, device_backend, device, [&](const at::Tensor& member) { return to_device(member, device); });
  }
  return result.has_storage() ? dense_like(result, storage_to_device(result.storage(), device), device_backend) : result;
}

void Aliases::write_back() {
  for (size_t index = 0; index < storages_.size(); ++index) {
    auto& [device, cpu, known_data, known_bytes] = storages_[index];
    const size_t bytes = cpu.nbytes();
    void* const data = cpu.mutable_data();
    if (C10_UNLIKELY(data != known_data || bytes != known_bytes)) {
      device.set_data_ptr_noswap(copy_in(data, bytes, device.device()));
      device.set_nbytes(bytes);
      known_data = data;
      known_bytes = bytes;
    }
  }
  // New members of sparse tensors are added to the pairs meanwhile.
  for (size_t index = 0; index < tensors_.size(); ++index) {
    const TensorPair pair = tensors_[index];
    const at::Tensor &to = pair.device, &from = pair.cpu;
    if (C10_UNLIKELY(is_sparse_layout(to))) {
      set_members(to, from, [&](const at::Tensor& member) { return to_device(member, to.device()); });
    } else if (C10_LIKELY(!to.is_nested())) {
      auto* impl = to.unsafeGetTensorImpl();
      const c10::Storage storage = storage_to_device(from.storage(), to.device());
      if (C10_UNLIKELY(storage.unsafeGetStorageImpl() != to.storage().unsafeGetStorageImpl())) {
        impl->set_storage_keep_dtype(storage);
      }
      if (C10_UNLIKELY(from.sizes() != to.sizes() || from.strides() != to.strides() ||
                       from.storage_offset() != to.storage_offset())) {
        impl->set_sizes_and_strides(from.sizes(), from.strides(), from.storage_offset());
      }
      copy_bits(from, to);
    }
  }
}

}  // namespace rustdev
