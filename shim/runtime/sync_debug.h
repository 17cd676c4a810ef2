// Waits of the host for the device. Implicit waits warn or raise in the debug mode (torch.rustdev.set_sync_debug_mode); reports
// (torch.rustdev.wait_report) list all waits, and copies.
#pragma once

#include <atomic>

#include "tensor.h"

namespace rustdev {

// RD_WAIT_MODE, RD_WAIT_OBSERVED and RD_WAIT_DRY.
extern std::atomic<int32_t> wait_flags;

// True during a dry run, in which kernels do not run and the host reads zeros.
inline bool is_dry() { return (wait_flags.load(std::memory_order_relaxed) & RD_WAIT_DRY) != 0; }

// Sets the bits under `mask`; returns the new flags.
int32_t change_wait_flags(int32_t mask, int32_t bits);

// A scope of one wait of this thread. A nested wait counts as part of the outer one.
class HostWait {
 public:
  // Warns or throws as the debug mode says. The first read of the host in a dry run warns.
  explicit HostWait(const rd_wait& wait) {
    if (C10_UNLIKELY(wait_flags.load(std::memory_order_relaxed) != 0)) {
      begin(wait);
    }
  }
  HostWait(HostWait&&) = delete;
  ~HostWait() {
    if (C10_UNLIKELY(entered_)) {
      end();
    }
  }

 private:
  void begin(const rd_wait& wait);
  void end() noexcept;

  rd_wait wait_;
  uint64_t begin_ = 0;
  bool entered_ = false;
};

// Waits for the current stream and returns the value of a one-element tensor that an operator needs on the host, for example the
// size of its result. `name`: the operator, for reports of waits.
at::Scalar awaited(const at::Tensor& tensor, const char* name);

}  // namespace rustdev
