// Waits of the host for the device. Those that the program has not asked for warn or raise in the debug mode
// (torch.rustdev.set_sync_debug_mode); reports are told of all of them, and of copies (torch.rustdev.wait_report).
#pragma once

#include <c10/macros/Macros.h>

#include <atomic>
#include <cstdint>

#include "rustdev.h"

namespace rustdev {

// From `device` on the program says itself that it waits. src/python/py_waits.rs has the same numbers.
enum class WaitKind : int32_t { read = 0, result = 1, fallback = 2, copy = 3, device = 4, stream = 5, event = 6 };

// What the host waits for. src/python/py_waits.rs has the same layout.
struct WaitInfo {
  WaitKind kind;
  int32_t device;
  const char* name;
  int64_t stream = 0;         // that is waited for
  rd_event* event = nullptr;  // that is waited for
  uint64_t bytes = 0;         // of a copy
  bool to_device = false;     // of a copy
  bool pinned = false;        // of a copy: the host's memory is
  bool waits = true;          // false: a copy that only has to be known
  bool idle = false;          // nothing was queued or running when it began
};

// The debug mode in the first two bits (0 nothing, 1 warn, 2 raise), and whether reports are told.
extern std::atomic<int32_t> wait_flags;

// One wait of this thread, from the constructor to the destructor; a wait inside another one is part of that.
class HostWait {
 public:
  // Warns or raises where the user wants that.
  explicit HostWait(const WaitInfo& info) {
    if (C10_UNLIKELY(wait_flags.load(std::memory_order_relaxed) != 0)) {
      begin(info);
    }
  }
  HostWait(const HostWait&) = delete;
  HostWait& operator=(const HostWait&) = delete;
  ~HostWait() {
    if (C10_UNLIKELY(entered_)) {
      end();
    }
  }

 private:
  void begin(const WaitInfo& info);
  void end() noexcept;

  WaitInfo info_;
  uint64_t begin_ = 0;
  bool entered_ = false;
};

}  // namespace rustdev
