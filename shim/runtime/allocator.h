// Device allocator for PyTorch's tensors of PrivateUse1.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

namespace rustdev {

// The one instance, registered for PrivateUse1; lives to the end of the process.
c10::DeviceAllocator* device_allocator();

}  // namespace rustdev
