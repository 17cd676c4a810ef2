// The debug mode of operators that wait for the device (torch.rustdev.set_sync_debug_mode), and its interface to Python.
#include <c10/util/Exception.h>

#include "runtime/sync_debug.h"

namespace rustdev {

std::atomic<int32_t> sync_debug_mode{0};

void report_hidden_wait() {
  constexpr const char* text = "called a synchronizing rustdev operation";
  TORCH_CHECK(sync_debug_mode.load(std::memory_order_relaxed) != 2, text);
  TORCH_WARN(text);
}

}  // namespace rustdev

extern "C" {

int32_t rd_shim_sync_debug_mode() { return rustdev::sync_debug_mode.load(std::memory_order_relaxed); }

void rd_shim_set_sync_debug_mode(int32_t mode) { rustdev::sync_debug_mode.store(mode, std::memory_order_relaxed); }
}
