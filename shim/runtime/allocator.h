// Device allocator for PyTorch's tensors of PrivateUse1.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include "rustdev.h"

namespace rustdev {

// The one instance, registered for PrivateUse1; lives to the end of the process.
c10::DeviceAllocator* device_allocator();

inline c10::CachingAllocator::Stat to_stat(const rd_stat& stat) {
  return {.current = stat.current, .peak = stat.peak, .allocated = stat.allocated, .freed = stat.freed};
}

}  // namespace rustdev
