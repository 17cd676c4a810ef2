// CPU tensors over device memory, for the time of one fallback call, and the way back from what a CPU kernel returns. In a dry run
// they may be Meta tensors, which have sizes but no memory, for a kernel that computes the sizes of results.
//
// The same device tensor always gives the same alias and the same storage the same CPU storage, so that a kernel sees the aliasing
// that its caller made. What the kernel did to an alias itself (resized it, gave it another storage, set conj or neg bits) is done
// to the device tensor afterwards. A returned alias is the device tensor; a view of one is a view of the device tensor; a tensor of
// the kernel's own is moved into device memory.
#pragma once

#include <c10/core/DispatchKey.h>
#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>

namespace rustdev {

constexpr c10::BackendComponent cpu_backend = c10::BackendComponent::CPUBit, meta_backend = c10::BackendComponent::MetaBit,
                                device_backend = c10::BackendComponent::PrivateUse1Bit;

// The dispatch key of tensors of a kind, as DispatchKey::Sparse, on a backend.
constexpr c10::DispatchKey key_of(c10::DispatchKey kind, c10::BackendComponent backend) {
  return c10::toRuntimePerBackendFunctionalityKey(kind, backend);
}

// True if a tensor has indices, of any of the sparse layouts.
bool is_sparse_layout(const at::Tensor& tensor);

class Aliases {
 public:
  explicit Aliases(c10::BackendComponent backend = cpu_backend) : backend_(backend) {}

  // The CPU tensor over the memory of a device tensor.
  at::Tensor to_cpu(const at::Tensor& tensor);

  // The device tensor for what a kernel returned.
  at::Tensor to_device(const at::Tensor& result, at::Device device);

  // Carries over what the kernel did to the aliases themselves.
  void write_back();

 private:
  struct TensorPair {
    at::Tensor device, cpu;
  };
  struct StoragePair {
    c10::Storage device, cpu;
    void* data;
    size_t bytes;
  };

  c10::Storage storage_to_cpu(const c10::Storage& storage);
  c10::Storage storage_to_device(const c10::Storage& storage, at::Device device);

  c10::DeviceType type() const { return backend_ == cpu_backend ? c10::DeviceType::CPU : c10::DeviceType::Meta; }

  // The CPU or Meta.
  const c10::BackendComponent backend_;
  c10::SmallVector<TensorPair, 6> tensors_;
  c10::SmallVector<StoragePair, 6> storages_;
};

}  // namespace rustdev
