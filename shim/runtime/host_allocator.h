// The allocator of pinned host memory.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

namespace rustdev {

// The one instance, registered for PrivateUse1; lives to the end of the process.
at::HostAllocator* host_allocator();

}  // namespace rustdev
