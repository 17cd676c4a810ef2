// Device guard: PyTorch's interface for switching devices and streams, and for torch.Stream and torch.Event.
//
// A c10::Event holds an rd_event as a `void*`. It is created at the first record, when the device is known.
#include <c10/core/Allocator.h>
#include <c10/core/AutogradState.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "runtime/runtime.h"
#include "runtime/sync_debug.h"

namespace rustdev {

c10::DeviceIndex device_index(c10::Device device) {
  TORCH_CHECK(device.is_privateuseone(), "expected a ", rd_backend_name(), " device, got ", device);
  const int32_t index = device.index() == -1 ? rd_device_current() : device.index();
  const int32_t count = rd_device_count();
  if (C10_UNLIKELY(index < 0 || index >= count)) {
    RD_CHECK(rd_device_set_current(index));  // throws with the runtime's reason
  }
  return static_cast<c10::DeviceIndex>(index);
}

void keep_backward_here() {
  thread_local bool is_kept = rd_autograd_threads();
  if (C10_UNLIKELY(!is_kept) && c10::GradMode::is_enabled()) {
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
    is_kept = true;
  }
}

namespace {

c10::Stream make_stream(c10::DeviceIndex device, int64_t id) { return c10::Stream(c10::Stream::UNSAFE, device_at(device), id); }

// The index of a stream's device; throws when there is no such stream.
c10::DeviceIndex stream_device(const c10::Stream& stream) {
  const c10::DeviceIndex device = device_index(stream.device());
  TORCH_CHECK(rd_stream_handle(device, stream.id()) != nullptr, rd_backend_name(), ":", static_cast<int>(device),
              " has no stream with the id ", stream.id());
  return device;
}

rd_event* as_event(void* event) { return static_cast<rd_event*>(event); }

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device previous = getDevice();
    setDevice(device);
    return previous;
  }

  c10::Device getDevice() const override { return device_at(rd_device_current()); }

  void setDevice(c10::Device device) const override {
    const c10::DeviceIndex index = device_index(device);
    if (index != rd_device_current()) {
      RD_CHECK(rd_device_set_current(index));
    }
  }

  void uncheckedSetDevice(c10::Device device) const noexcept override {
    // Destructors cannot report a failure. The device was current before, so it exists.
    if (device.index() != rd_device_current()) {
      (void)rd_device_set_current(device.index());
    }
  }

  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(rd_device_count()); }

  c10::DeviceCapability getDeviceCapability(c10::Device device) const override {
    device_index(device);
    return c10::DeviceCapability();  // all dtypes of PyTorch: memory and copies support them
  }

  void synchronizeDevice(const c10::DeviceIndex device) const override {
    const c10::DeviceIndex index = device_index(device_at(device));
    const HostWait wait({RD_WAIT_DEVICE, index, "synchronize()"});
    RD_CHECK(rd_device_synchronize(index));
  }

  c10::Stream getStream(c10::Device device) const override {
    keep_backward_here();
    const c10::DeviceIndex index = device_index(device);
    return make_stream(index, rd_stream_current(index));
  }

  c10::Stream getDefaultStream(c10::Device device) const override { return make_stream(device_index(device), 0); }

  c10::Stream getStreamFromGlobalPool(c10::Device device, bool isHighPriority) const override {
    return getNewStream(device, isHighPriority ? -1 : 0);
  }

  // From the pool, as CUDA's. Streams live as long as the process, so a c10::Stream may be copied freely.
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    const c10::DeviceIndex index = device_index(device);
    int64_t id = 0;
    RD_CHECK(rd_stream_from_pool(index, std::clamp(priority, -1, 0), &id));
    return make_stream(index, id);
  }

  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::DeviceIndex device = stream_device(stream);
    return make_stream(device, rd_stream_exchange(device, stream.id()));
  }

  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return rd_stream_handle(stream_device(stream), stream.id());
  }

  bool queryStream(const c10::Stream& stream) const override {
    bool done = false;
    RD_CHECK(rd_stream_query(stream_device(stream), stream.id(), &done));
    return done;
  }

  void synchronizeStream(const c10::Stream& stream) const override {
    const HostWait wait({RD_WAIT_STREAM, stream_device(stream), "Stream.synchronize()", stream.id()});
    RD_CHECK(rd_stream_synchronize(stream_device(stream), stream.id()));
  }

  bool isStreamCapturing(const c10::Stream& stream) const override {
    return rd_stream_is_capturing(stream_device(stream), stream.id());
  }

  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    if (rd_pointer_device(data.get()) >= 0) {
      RD_CHECK(rd_memory_record_stream(data.get(), stream_device(stream), stream.id()));
    }
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device_index,
              const c10::EventFlag flag) const override {
    const c10::DeviceIndex device = stream_device(stream);
    TORCH_CHECK(device_index == -1 || device_index == device, "Event device ", static_cast<int>(device_index),
                " does not match recording stream's device ", static_cast<int>(device), ".");
    if (*event == nullptr) {
      rd_event* created = nullptr;
      RD_CHECK(rd_event_create(device, flag == c10::EventFlag::BACKEND_DEFAULT, &created));
      *event = created;
    }
    RD_CHECK(rd_event_record(as_event(*event), device, stream.id()));
  }

  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) {
      RD_CHECK(rd_event_block(as_event(event), stream_device(stream), stream.id()));
    }
  }

  bool queryEvent(void* event) const override {
    if (event == nullptr) {
      return true;
    }
    bool done = false;
    RD_CHECK(rd_event_query(as_event(event), &done));
    return done;
  }

  void synchronizeEvent(void* event) const override {
    if (event != nullptr) {
      const HostWait wait({RD_WAIT_EVENT, rd_event_device(as_event(event)), "Event.synchronize()", 0, as_event(event)});
      RD_CHECK(rd_event_synchronize(as_event(event)));
    }
  }

  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { rd_event_destroy(as_event(event)); }

  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr, "Both events must be recorded before calculating elapsed time.");
    double milliseconds = 0.0;
    RD_CHECK(rd_event_elapsed(as_event(start), as_event(end), &milliseconds));
    return milliseconds;
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace
}  // namespace rustdev
