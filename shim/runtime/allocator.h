// The device allocator that PyTorch's tensors of PrivateUse1 get their memory from.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

namespace rustdev {

// The one instance, registered for PrivateUse1; lives to the end of the process.
c10::DeviceAllocator* device_allocator();

}  // namespace rustdev
