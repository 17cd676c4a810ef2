// The allocators of device memory and of pinned host memory, over the functions rd_memory_* and rd_host_*; the caching pools and
// their counters are in Rust. Also tensors over memory of another process.
#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <atomic>
#include <bit>
#include <cstring>

#include "runtime/runtime.h"
#include "runtime/sync_debug.h"
#include "tensor.h"

namespace rustdev {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingDeviceAllocator::DeviceStats;

void report_to_profiler(void* pointer, int64_t bytes, uint64_t allocated, uint64_t reserved, int32_t device) {
  c10::reportMemoryUsageToProfiler(pointer, bytes, allocated, reserved, device_at(device));
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
  rd_memory_stats stats{};
  if (c10::memoryProfilingEnabled() && rd_memory_get_stats(device, &stats) == RD_OK) {
    c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes), stats.allocated_bytes[0].current, stats.reserved_bytes[0].current,
                                     device_at(device));
  }
}

Stat to_stat(const rd_stat& stat) { return std::bit_cast<Stat>(stat); }
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
    return {pointer, pointer, &free_block, device_at(device)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }

  void copy_data(void* destination, const void* source, size_t bytes) const override {
    synchronize_for(destination);
    synchronize_for(source);
    if (C10_UNLIKELY(is_dry())) {
      return;
    }
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
    rd_memory_stats stats{};
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

  void resetAccumulatedStats(c10::DeviceIndex device) override { RD_CHECK(rd_memory_reset_stats(device, /*accumulated=*/true)); }

  void resetPeakStats(c10::DeviceIndex device) override { RD_CHECK(rd_memory_reset_stats(device, /*accumulated=*/false)); }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    uint64_t free = 0;
    uint64_t total = 0;
    RD_CHECK(rd_memory_info(device, &free, &total));
    return {free, total};
  }
};

struct HostAllocator final : public at::HostAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* pointer = nullptr;
    RD_CHECK(rd_host_allocate(bytes, &pointer));
    return {pointer, pointer, &rd_host_free, c10::DeviceType::CPU};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &rd_host_free; }

  void copy_data(void* destination, const void* source, size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }

  // Returns false for memory of other allocators: the caller has to wait for the copy.
  bool record_event(void* pointer, void* /*context*/, c10::Stream stream) override {
    if (!rd_host_is_pinned(pointer)) {
      return false;
    }
    RD_CHECK(rd_host_record_stream(pointer, stream.device_index(), stream.id()));
    return true;
  }

  void empty_cache() override { RD_CHECK(rd_host_empty_cache()); }

  at::HostStats get_stats() override {
    rd_host_stats stats{};
    RD_CHECK(rd_host_get_stats(&stats));
    at::HostStats result;
    result.active_requests = to_stat(stats.active_requests);
    result.active_bytes = to_stat(stats.active_bytes);
    result.allocations = to_stat(stats.allocations);
    result.allocated_bytes = to_stat(stats.allocated_bytes);
    result.host_alloc_time = std::bit_cast<c10::CachingAllocator::DurationStat>(stats.host_alloc_time);
    result.host_free_time = std::bit_cast<c10::CachingAllocator::DurationStat>(stats.host_free_time);
    result.num_host_alloc = stats.num_host_alloc;
    result.num_host_free = stats.num_host_free;
    std::copy(std::begin(stats.bucket_allocation), std::end(stats.bucket_allocation), result.bucket_allocation.begin());
    return result;
  }

  void reset_accumulated_stats() override { RD_CHECK(rd_host_reset_stats(/*accumulated=*/true)); }

  void reset_peak_stats() override { RD_CHECK(rd_host_reset_stats(/*accumulated=*/false)); }
};

// NOLINTBEGIN(bugprone-throwing-static-initialization): made while the module loads, as PyTorch's own are
Allocator allocator;
HostAllocator pinned_allocator;
// NOLINTEND(bugprone-throwing-static-initialization)

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &allocator)
REGISTER_HOST_ALLOCATOR(c10::DeviceType::PrivateUse1, &pinned_allocator)

void let_go(void* received) { rd_received_let_go(static_cast<rd_received*>(received)); }

// A byte tensor over received memory. `received`: the runtime's handle, released with the storage. The storage is not resizable,
// because the memory after it belongs to others.
at::Tensor received_bytes(int64_t address, int64_t bytes, int64_t device, int64_t received) {
  c10::DataPtr data(reinterpret_cast<void*>(address), reinterpret_cast<void*>(received), &let_go,
                    device_at(static_cast<int32_t>(device)));
  c10::Storage storage(c10::Storage::use_byte_size_t{}, bytes, std::move(data), /*allocator=*/nullptr, /*resizable=*/false);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), caffe2::TypeMeta::Make<uint8_t>());
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous({bytes});
  return tensor;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(rustdev, m) {
  m.def("_received(int address, int bytes, int device, int received) -> Tensor", &received_bytes);
}

}  // namespace rustdev
