// The debug mode of waits (torch.rustdev.set_sync_debug_mode), what tells reports of them, and the interface of both to Python.
#include <c10/util/Exception.h>

#include "runtime/sync_debug.h"

extern "C" {

// Who is told of waits. `begin` returns the time and says in `info` whether nothing was left to wait for; `end` takes both back.
typedef struct rd_shim_wait_observer {
  uint64_t (*begin)(rustdev::WaitInfo* info);
  void (*end)(const rustdev::WaitInfo* info, uint64_t begin);
} rd_shim_wait_observer;
}

namespace rustdev {

std::atomic<int32_t> wait_flags{0};

namespace {

constexpr int32_t mode_bits = 3;
constexpr int32_t observed_bit = 4;

// Whether this thread is in a wait.
thread_local bool inside = false;

std::atomic<const rd_shim_wait_observer*> observer{nullptr};

void check_mode(int32_t mode) {
  constexpr const char* text = "called a synchronizing rustdev operation";
  TORCH_CHECK(mode != 2, text);
  if (mode == 1) {
    TORCH_WARN(text);
  }
}

// Sets the bits among `mask`.
void set_flags(int32_t mask, int32_t bits) {
  int32_t flags = wait_flags.load(std::memory_order_relaxed);
  while (!wait_flags.compare_exchange_weak(flags, (flags & ~mask) | bits, std::memory_order_relaxed)) {
  }
}

}  // namespace

void HostWait::begin(const WaitInfo& info) {
  if (inside) {
    return;
  }
  const int32_t flags = wait_flags.load(std::memory_order_relaxed);
  if (info.waits && info.kind < WaitKind::device) {
    check_mode(flags & mode_bits);
  }
  inside = entered_ = true;
  const rd_shim_wait_observer* const told = observer.load(std::memory_order_acquire);
  if ((flags & observed_bit) != 0 && told != nullptr) {
    info_ = info;
    if (info_.event != nullptr) {
      // One that cannot be asked cannot be waited for either, as the wait will say.
      (void)rd_event_query(info_.event, &info_.idle);
    }
    begin_ = told->begin(&info_);
  }
}

void HostWait::end() noexcept {
  inside = false;
  if (begin_ != 0) {
    observer.load(std::memory_order_acquire)->end(&info_, begin_);
  }
}

}  // namespace rustdev

extern "C" {

int32_t rd_shim_sync_debug_mode() { return rustdev::wait_flags.load(std::memory_order_relaxed) & rustdev::mode_bits; }

void rd_shim_set_sync_debug_mode(int32_t mode) { rustdev::set_flags(rustdev::mode_bits, mode); }

// Whether an observer is told of waits from now on; it lives as long as the process.
void rd_shim_observe_waits(const rd_shim_wait_observer* observer, bool on) {
  rustdev::observer.store(observer, std::memory_order_release);
  rustdev::set_flags(rustdev::observed_bit, on ? rustdev::observed_bit : 0);
}
}
