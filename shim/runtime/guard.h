// Device indices as PyTorch passes them, checked.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

namespace rustdev {

// The index of a rustdev device; the current device's where `device` names none (-1).
// Throws for a device of another type, an index that does not exist, and in a fork child, which has no devices.
c10::DeviceIndex device_index(c10::Device device);

// This thread's current stream of a device.
c10::Stream current_stream(c10::DeviceIndex device);

}  // namespace rustdev
