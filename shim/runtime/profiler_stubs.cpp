// The events with which torch.autograd.profiler.profile(use_device="rustdev") measures operators without Kineto.
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>

#include "check.h"

namespace rustdev {
namespace {

struct Stubs final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* device, torch::profiler::impl::ProfilerVoidEventStub* event, int64_t* cpu_ns) const override {
    const int32_t current = rd_device_current();
    if (device != nullptr) {
      *device = static_cast<c10::DeviceIndex>(current);
    }
    rd_event* created = nullptr;
    RD_CHECK(rd_event_create(current, /*timing=*/true, &created));
    *event = std::shared_ptr<void>(created, [](void* pointer) { rd_event_destroy(static_cast<rd_event*>(pointer)); });
    if (cpu_ns != nullptr) {
      *cpu_ns = c10::getTime();
    }
    RD_CHECK(rd_event_record(created, current, rd_stream_current(current)));
  }

  // Microseconds; 0 between events of two devices, if an operator changed the device.
  float elapsed(const torch::profiler::impl::ProfilerVoidEventStub* begin,
                const torch::profiler::impl::ProfilerVoidEventStub* end) const override {
    auto* const first = static_cast<rd_event*>(begin->get());
    auto* const second = static_cast<rd_event*>(end->get());
    if (rd_event_device(first) != rd_event_device(second)) {
      return 0;
    }
    RD_CHECK(rd_event_synchronize(first));
    RD_CHECK(rd_event_synchronize(second));
    double milliseconds = 0;
    RD_CHECK(rd_event_elapsed(first, second, &milliseconds));
    return static_cast<float>(milliseconds * 1e3);
  }

  // No-ops: marks and ranges are for external tools, which the device does not have.
  void mark(const char* /*name*/) const override {}
  void rangePush(const char* /*name*/) const override {}
  void rangePop() const override {}

  bool enabled() const override { return true; }

  void onEachDevice(std::function<void(int)> operation) const override {
    const int32_t before = rd_device_current();
    for (int32_t device = 0; device < rd_device_count(); ++device) {
      RD_CHECK(rd_device_set_current(device));
      operation(device);
    }
    RD_CHECK(rd_device_set_current(before));
  }

  void synchronize() const override { RD_CHECK(rd_device_synchronize(rd_device_current())); }
};

// Never destroyed: PyTorch keeps the pointer to the end of the process.
__attribute__((constructor)) void register_stubs() { torch::profiler::impl::registerPrivateUse1Methods(new Stubs()); }

}  // namespace
}  // namespace rustdev
