// The debug mode of operators that wait for the device, torch.rustdev.set_sync_debug_mode.
#pragma once

#include <c10/macros/Macros.h>

#include <atomic>
#include <cstdint>

namespace rustdev {

// 0 nothing, 1 warn, 2 raise.
extern std::atomic<int32_t> sync_debug_mode;

void report_hidden_wait();

// Called before an operator waits for the device though the program has not asked it to: warns or raises where the user wants that.
inline void check_hidden_wait() {
  if (C10_UNLIKELY(sync_debug_mode.load(std::memory_order_relaxed) != 0)) {
    report_hidden_wait();
  }
}

}  // namespace rustdev
