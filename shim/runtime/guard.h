// Checked device indices, and the thread's autograd setting.
#pragma once

#include <c10/core/Device.h>

namespace rustdev {

// The index of a rustdev device; the current device's if `device` has none (-1).
// Throws for a device of another type, an invalid index, and in a forked child, which has no devices.
c10::DeviceIndex device_index(c10::Device device);

// Disables autograd's multithreading once in each thread, so that backward runs on the calling thread. A later setting by the user
// holds. Called by a thread's first use of the device: an allocation, or the lookup of a stream, which each node of a backward
// does. Not done while grad mode is off: the setting is then part of a state that is restored later.
void keep_backward_here();

}  // namespace rustdev
