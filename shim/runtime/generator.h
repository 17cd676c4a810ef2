// Random generators of rustdev devices.
#pragma once

#include <ATen/core/Generator.h>

#include "rustdev.h"

namespace rustdev {

// A new generator of a device, with PyTorch's default seed.
at::Generator new_generator(c10::DeviceIndex device);

// The default generator of a device, seeded from the machine's entropy when it is first asked for.
const at::Generator& default_generator(c10::DeviceIndex device);

// The state that an operator on `device` draws from: that of the generator given, which must belong to that device, else of the
// default one.
const rd_generator* generator_state(const std::optional<at::Generator>& given, c10::Device device);

}  // namespace rustdev
