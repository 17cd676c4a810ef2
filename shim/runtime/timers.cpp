// Timers on the device's streams, made of events: that of torch.autograd.profiler.profile(use_device="rustdev"), which measures
// operators without Kineto; and that of DistributedDataParallel, whose reducer records points and whose logger reports the times
// between them.
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include "tensor.h"

namespace c10d {

// Weak: absent in a torch without torch.distributed.
__attribute__((weak)) ::c10::Registry<c10::DeviceType, std::unique_ptr<Timer>, c10::Device>* TimerRegistry();

}  // namespace c10d

namespace rustdev {
namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

c10::Event new_event() { return c10::Event(device_type, c10::EventFlag::BACKEND_DEFAULT); }

// Records an event on the device's current stream.
void record_on(c10::Device device, c10::Event& event) { event.record(c10::impl::VirtualGuardImpl(device_type).getStream(device)); }

// Milliseconds between two recorded events; waits for both.
double elapsed_between(c10::Event& begin, c10::Event& end) {
  begin.synchronize();
  end.synchronize();
  return begin.elapsedTime(end);
}

struct Stubs final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event, int64_t* cpu_ns) const override {
    const c10::Device current = device_at(rd_device_current());
    if (device != nullptr) {
      *device = current.index();
    }
    const auto created = std::make_shared<c10::Event>(new_event());
    *event = created;
    if (cpu_ns != nullptr) {
      *cpu_ns = c10::getTime();
    }
    record_on(current, *created);
  }

  // Microseconds; 0 between events of two devices, if an operator changed the device.
  float elapsed(const ProfilerVoidEventStub* begin, const ProfilerVoidEventStub* end) const override {
    auto &first = *static_cast<c10::Event*>(begin->get()), &second = *static_cast<c10::Event*>(end->get());
    return first.device_index() == second.device_index() ? static_cast<float>(elapsed_between(first, second) * 1e3) : 0;
  }

  // No-ops: marks and ranges are for external tools, which the device does not have.
  void mark(const char* /*name*/) const override {}
  void rangePush(const char* /*name*/) const override {}
  void rangePop() const override {}

  bool enabled() const override { return true; }

  void onEachDevice(std::function<void(int)> operation) const override {
    for (int32_t device = 0; device < rd_device_count(); ++device) {
      const DeviceScope scope(device);
      operation(device);
    }
  }

  void synchronize() const override { RD_CHECK(rd_device_synchronize(rd_device_current())); }
};

// Records a point on the host and on the current stream.
struct ReducerTimer final : c10d::Timer {
  explicit ReducerTimer(c10::Device device) : device(device) {}

  void record(Event point) override {
    Timer::record(point);
    record_on(device, event_of(point));
  }

  // Nanoseconds between two points. The logger calls it in a later iteration. Returns nullopt if a point was not recorded, or if
  // `end` is older than `start`, from an unfinished iteration.
  std::optional<int64_t> measureDifference(Event start, Event end) override {
    if (!event_of(start).was_marked_for_recording() || !event_of(end).was_marked_for_recording()) {
      return std::nullopt;
    }
    const double milliseconds = elapsed_between(event_of(start), event_of(end));
    return milliseconds < 0 ? std::nullopt : std::optional<int64_t>(static_cast<int64_t>(milliseconds * 1e6));
  }

 private:
  c10::Event& event_of(Event point) { return events[static_cast<size_t>(point)]; }

  const c10::Device device;
  c10::Event events[5] = {new_event(), new_event(), new_event(), new_event(), new_event()};
};

__attribute__((constructor)) void register_timers() {
  // Never destroyed: PyTorch keeps the pointer to the end of the process.
  torch::profiler::impl::registerPrivateUse1Methods(new Stubs());
  if (c10d::TimerRegistry != nullptr) {
    c10d::TimerRegistry()->Register(
        device_type, [](c10::Device device) -> std::unique_ptr<c10d::Timer> { return std::make_unique<ReducerTimer>(device); });
  }
}

}  // namespace
}  // namespace rustdev
