// The device timer of DistributedDataParallel: PyTorch's reducer records points, and its logger reports the times between them.

#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

namespace c10d {

// Weak: absent in a torch without torch.distributed.
__attribute__((weak)) ::c10::Registry<c10::DeviceType, std::unique_ptr<Timer>, c10::Device>* TimerRegistry();

}  // namespace c10d

namespace rustdev {
namespace {

// Records a point on the host and on the current stream.
struct ReducerTimer final : c10d::Timer {
  explicit ReducerTimer(c10::Device device) : device(device) {}

  void record(Event point) override {
    Timer::record(point);
    event_of(point).record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }

  // Nanoseconds between two points; waits for both. The logger calls it in a later iteration. Returns nullopt if a point was not
  // recorded, or if `end` is older than `start`, from an unfinished iteration.
  std::optional<int64_t> measureDifference(Event start, Event end) override {
    c10::Event& from = event_of(start);
    c10::Event& to = event_of(end);
    if (!from.was_marked_for_recording() || !to.was_marked_for_recording()) {
      return std::nullopt;
    }
    from.synchronize();
    to.synchronize();
    const double milliseconds = from.elapsedTime(to);
    return milliseconds < 0 ? std::nullopt : std::optional<int64_t>(static_cast<int64_t>(milliseconds * 1e6));
  }

 private:
  c10::Event& event_of(Event point) { return events[static_cast<size_t>(point)]; }

  static c10::Event make() { return c10::Event(c10::DeviceType::PrivateUse1, c10::EventFlag::BACKEND_DEFAULT); }

  const c10::Device device;
  c10::Event events[5] = {make(), make(), make(), make(), make()};
};

__attribute__((constructor)) void register_timer() {
  if (c10d::TimerRegistry != nullptr) {
    c10d::TimerRegistry()->Register(c10::kPrivateUse1, [](c10::Device device) -> std::unique_ptr<c10d::Timer> {
      return std::make_unique<ReducerTimer>(device);
    });
  }
}

}  // namespace
}  // namespace rustdev
