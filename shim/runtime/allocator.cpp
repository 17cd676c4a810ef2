// c10::DeviceAllocator over the rd_memory_* functions. The caching pool and its counters are in Rust.
#include "runtime/allocator.h"

#include <array>
#include <atomic>
#include <cstring>

#include "check.h"
#include "runtime/guard.h"
#include "runtime/ipc.h"
#include "rustdev.h"

namespace rustdev {
namespace {

using c10::CachingAllocator::StatArray;
using c10::CachingDeviceAllocator::DeviceStats;

c10::Device device_of_index(int32_t index) { return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index)}; }

void report_to_profiler(void* pointer, int64_t bytes, uint64_t allocated, uint64_t reserved, int32_t device) {
  c10::reportMemoryUsageToProfiler(pointer, bytes, allocated, reserved, device_of_index(device));
}

// Installs the pool's observer when this process first profiles memory. It stays installed: PyTorch's report function checks the
// thread's profiler itself.
void observe_for_profiler() {
  static std::atomic<bool> observing{false};
  if (C10_UNLIKELY(c10::memoryProfilingEnabled()) && !observing.exchange(true)) {
    rd_memory_set_observer(&report_to_profiler);
  }
}

void free_block(void* pointer) {
  observe_for_profiler();
  rd_memory_free(pointer);
}

void report_shortage_to_profiler(size_t bytes, int32_t device) {
  rd_memory_stats stats;
  if (c10::memoryProfilingEnabled() && rd_memory_get_stats(device, &stats) == RD_OK) {
    c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes), stats.allocated_bytes[0].current, stats.reserved_bytes[0].current,
                                     device_of_index(device));
  }
}

StatArray to_stats(const rd_stat (&stats)[3]) { return {to_stat(stats[0]), to_stat(stats[1]), to_stat(stats[2])}; }

// Waits for the device that a pointer belongs to, if any.
void synchronize_for(const void* pointer) {
  const int32_t device = rd_pointer_device(pointer);
  if (device >= 0) {
    RD_CHECK(rd_device_synchronize(device));
  }
}

struct Allocator final : public c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    observe_for_profiler();
    keep_backward_here();
    void* pointer = nullptr;
    int32_t device = -1;
    const rd_status status = rd_memory_allocate(bytes, &pointer, &device);
    if (C10_UNLIKELY(status != RD_OK)) {
      if (status == RD_OUT_OF_MEMORY) {
        report_shortage_to_profiler(bytes, device);
      }
      throw_status(status);
    }
    return {pointer, pointer, &free_block, device_of_index(device)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }

  void copy_data(void* destination, const void* source, size_t bytes) const override {
    synchronize_for(destination);
    synchronize_for(source);
    const HostAccess access;
    std::memcpy(destination, source, bytes);
  }

  bool initialized() override { return rd_is_started(); }

  void emptyCache(c10::MempoolId_t /*pool*/) override { RD_CHECK(rd_memory_empty_cache(-1)); }

  // Ignores memory of other allocators (a tensor over a blob).
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    if (data.get() != nullptr && data.get_deleter() == &free_block) {
      RD_CHECK(rd_memory_record_stream(data.get_context(), stream.device_index(), stream.id()));
    }
  }

  DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    rd_memory_stats stats;
    RD_CHECK(rd_memory_get_stats(device, &stats));
    DeviceStats result;
    result.allocation = to_stats(stats.allocation);
    result.segment = to_stats(stats.segment);
    result.active = to_stats(stats.active);
    result.inactive_split = to_stats(stats.inactive_split);
    result.allocated_bytes = to_stats(stats.allocated_bytes);
    result.reserved_bytes = to_stats(stats.reserved_bytes);
    result.active_bytes = to_stats(stats.active_bytes);
    result.inactive_split_bytes = to_stats(stats.inactive_split_bytes);
    result.requested_bytes = to_stats(stats.requested_bytes);
    result.oversize_allocations = to_stat(stats.oversize_allocations);
    result.oversize_segments = to_stat(stats.oversize_segments);
    result.num_alloc_retries = stats.num_alloc_retries;
    result.num_ooms = stats.num_ooms;
    result.num_sync_all_streams = stats.num_sync_all_streams;
    result.num_device_alloc = stats.num_device_alloc;
    result.num_device_free = stats.num_device_free;
    result.max_split_size = stats.max_split_size;
    return result;
  }

  void resetAccumulatedStats(c10::DeviceIndex device) override { RD_CHECK(rd_memory_reset_accumulated(device)); }

  void resetPeakStats(c10::DeviceIndex device) override { RD_CHECK(rd_memory_reset_peak(device)); }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    uint64_t free = 0;
    uint64_t total = 0;
    RD_CHECK(rd_memory_info(device, &free, &total));
    return {free, total};
  }
};

Allocator allocator;  // NOLINT(bugprone-throwing-static-initialization): made while the module loads, as PyTorch's own are

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &allocator)

}  // namespace

c10::DeviceAllocator* device_allocator() { return &allocator; }

}  // namespace rustdev
