// Checked device indices, and the state of a thread: its current streams, and its switch for autograd.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

namespace rustdev {

// The index of a rustdev device; the current device's where `device` names none (-1).
// Throws for a device of another type, an index that does not exist, and in a fork child, which has no devices.
c10::DeviceIndex device_index(c10::Device device);

// This thread's current stream of a device.
c10::Stream current_stream(c10::DeviceIndex device);

// Turns PyTorch's switch for threads of autograd off, once in each thread: a device's backward then runs on the thread that calls
// it. What the user sets afterwards holds. Called by what a thread does first with the device: an allocation, or the look-up of a
// stream, which each node of a graph asks for. Without a gradient mode the switch is part of a state that is put back later.
void keep_backward_here();

}  // namespace rustdev
