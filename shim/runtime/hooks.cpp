// PrivateUse1 hooks: PyTorch's queries about the accelerator outside of operators and guards.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>

#include "runtime/runtime.h"
#include "rustdev_operators.h"
#include "tensor.h"

namespace rustdev {
namespace {

// Enqueues a copy of bytes within a device on its current stream.
void copy_bytes(c10::DeviceIndex device, void* destination, void* source, size_t bytes) {
  const int64_t size = static_cast<int64_t>(bytes);
  const int64_t stride = 1;
  const rd_tensor to{nullptr, destination, &size, &stride, 1, static_cast<int32_t>(at::kByte), device, 0};
  rd_tensor from = to;
  from.data = source;
  RD_CHECK(rd_copy(&to, &from, /*wait=*/nullptr));
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }

  bool isAvailable() const override { return rd_device_count() > 0; }

  void init() const override { RD_CHECK(rd_init()); }

  bool hasPrimaryContext(c10::DeviceIndex device) const override { return device >= 0 && device < rd_device_count(); }

  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(rd_device_count()); }

  void setCurrentDevice(c10::DeviceIndex device) const override {
    RD_CHECK(rd_device_set_current(device_index(device_at(device))));
  }

  c10::DeviceIndex getCurrentDevice() const override { return static_cast<c10::DeviceIndex>(rd_device_current()); }

  // A negative index changes nothing and returns -1, so undoing it changes nothing either.
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    if (device < 0) {
      return -1;
    }
    const c10::DeviceIndex previous = getCurrentDevice();
    setCurrentDevice(device);
    return previous;
  }

  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchangeDevice(device); }

  bool isPinnedPtr(const void* data) const override { return rd_host_is_pinned(data); }

  at::Allocator* getPinnedMemoryAllocator() const override { return at::getHostAllocator(device_type); }

  c10::Device getDeviceFromPtr(void* data) const override {
    const int32_t device = rd_pointer_device(data);
    TORCH_CHECK(device >= 0, "the pointer is not memory of a ", rd_backend_name(), " device");
    return device_at(device);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(device_index(device_at(device)));
  }

  at::Generator getNewGenerator(c10::DeviceIndex device) const override { return new_generator(device_index(device_at(device))); }

  // Stream-ordered: a task of the current stream fills the new block, and the old block is not reused before that task ran.
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t newsize) const override {
    c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
    TORCH_CHECK(impl->resizable(), "Trying to resize storage that is not resizable");
    const c10::Device device = impl->device();
    const c10::DeviceGuard guard(device);
    at::DataPtr data = impl->allocator()->allocate(newsize);
    const size_t kept = std::min(newsize, impl->nbytes());
    if (kept > 0) {
      void* old = impl->mutable_data();
      copy_bytes(device.index(), data.mutable_get(), old, kept);
      RD_CHECK(rd_memory_record_stream(old, device.index(), rd_stream_current(device.index())));
    }
    impl->set_data_ptr_noswap(std::move(data));
    impl->set_nbytes(newsize);
  }
};

// Never destroyed: PyTorch keeps the pointer to the end of the process.
__attribute__((constructor)) void register_hooks() { at::RegisterPrivateUse1HooksInterface(new Hooks()); }

}  // namespace
}  // namespace rustdev
