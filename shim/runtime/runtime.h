// The parts of the runtime that operators use: device indices (guard.cpp), generators (generator.cpp), labels (label.cpp).
#pragma once

#include <ATen/core/Generator.h>

#include "rustdev.h"

namespace rustdev {

// The index of a rustdev device; the current device's if `device` has none (-1).
// Throws for a device of another type, an invalid index, and in a forked child, which has no devices.
c10::DeviceIndex device_index(c10::Device device);

// Disables autograd's multithreading once in each thread, so that backward runs on the calling thread. A later setting by the user
// holds. Called by a thread's first use of the device: an allocation, or the lookup of a stream, which each node of a backward
// does. Not done while grad mode is off: the setting is then part of a state that is restored later.
void keep_backward_here();

// A new generator of a device, with PyTorch's default seed.
at::Generator new_generator(c10::DeviceIndex device);

// The default generator of a device, seeded from the machine's entropy when it is first asked for.
const at::Generator& default_generator(c10::DeviceIndex device);

// The state that an operator on `device` draws from: that of the generator given, which must belong to that device, else of the
// default one.
const rd_generator* generator_state(const std::optional<at::Generator>& given, c10::Device device);

// Gives a copy the source's own label, if it has one.
void carry_label(const at::Tensor& source, const at::Tensor& copy);

}  // namespace rustdev
