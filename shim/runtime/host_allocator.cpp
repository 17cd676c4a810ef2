// at::HostAllocator over the rd_host_* functions.
#include "runtime/host_allocator.h"

#include <algorithm>
#include <iterator>

#include "check.h"
#include "runtime/allocator.h"
#include "rustdev.h"

namespace rustdev {
namespace {

c10::CachingAllocator::DurationStat to_duration(const rd_duration& time) {
  return {.total = time.total, .max = time.max, .min = time.min, .count = time.count};
}

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
    rd_host_stats stats;
    RD_CHECK(rd_host_get_stats(&stats));
    at::HostStats result;
    result.active_requests = to_stat(stats.active_requests);
    result.active_bytes = to_stat(stats.active_bytes);
    result.allocations = to_stat(stats.allocations);
    result.allocated_bytes = to_stat(stats.allocated_bytes);
    result.host_alloc_time = to_duration(stats.host_alloc_time);
    result.host_free_time = to_duration(stats.host_free_time);
    result.num_host_alloc = stats.num_host_alloc;
    result.num_host_free = stats.num_host_free;
    std::copy(std::begin(stats.bucket_allocation), std::end(stats.bucket_allocation), result.bucket_allocation.begin());
    return result;
  }

  void reset_accumulated_stats() override { RD_CHECK(rd_host_reset_accumulated()); }

  void reset_peak_stats() override { RD_CHECK(rd_host_reset_peak()); }
};

HostAllocator allocator;

REGISTER_HOST_ALLOCATOR(c10::DeviceType::PrivateUse1, &allocator)

}  // namespace

at::HostAllocator* host_allocator() { return &allocator; }

}  // namespace rustdev
