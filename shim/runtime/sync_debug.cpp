// The debug mode of waits (torch.rustdev.set_sync_debug_mode), and the reports of their beginning and end.
#include "runtime/sync_debug.h"

namespace rustdev {

std::atomic<int32_t> wait_flags{0};

// True while this thread is in a wait.
static thread_local bool inside = false;

// Warns of the first read of the host in a dry run of this process.
static void warn_of_zeros(const rd_wait& wait) {
  static std::atomic<bool> warned{false};
  const bool reads = wait.kind == RD_WAIT_READ || wait.kind == RD_WAIT_RESULT || (wait.kind == RD_WAIT_COPY && !wait.to_device);
  if (reads && !warned.exchange(true)) {
    TORCH_WARN(rd_backend_name(),
               ": nothing is computed in a dry run, so values that the host reads are zeros, and sizes that depend on values ",
               "are those of n results for n elements; this warning comes once");
  }
}

void HostWait::begin(const rd_wait& wait) {
  if (inside) {
    return;
  }
  const int32_t flags = wait_flags.load(std::memory_order_relaxed);
  const int32_t mode = flags & RD_WAIT_MODE;
  if (C10_UNLIKELY(mode != 0) && !wait.is_asynchronous && wait.kind < RD_WAIT_DEVICE) {
    const std::string text = c10::str("called a synchronizing ", rd_backend_name(), " operation");
    TORCH_CHECK(mode != 2, text);
    TORCH_WARN(text);
  }
  if ((flags & RD_WAIT_DRY) != 0) {
    warn_of_zeros(wait);
  }
  inside = entered_ = true;
  if ((flags & RD_WAIT_OBSERVED) != 0) {
    wait_ = wait;
    begin_ = rd_wait_begin(&wait_);
  }
}

void HostWait::end() noexcept {
  inside = false;
  if (begin_ != 0) {
    rd_wait_end(&wait_, begin_);
  }
}

at::Scalar awaited(const at::Tensor& tensor, const char* name) {
  const int32_t device = tensor.device().index();
  const HostWait wait({RD_WAIT_RESULT, device, name});
  synchronize_current_stream(device, name);
  return tensor.item();
}

int32_t change_wait_flags(int32_t mask, int32_t bits) {
  int32_t flags = wait_flags.load(std::memory_order_relaxed);
  while (!wait_flags.compare_exchange_weak(flags, (flags & ~mask) | bits, std::memory_order_relaxed)) {
  }
  return (flags & ~mask) | bits;
}

}  // namespace rustdev
