// Random numbers for CPU kernels that run on behalf of the device.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <optional>

namespace rustdev {

// A CPU generator seeded from the next state of a device generator (undefined: the device's default one), which is advanced.
at::Generator derived_generator(const at::Generator& given, at::Device device);

// For operators without a Generator argument: the CPU's default generator is seeded from the device's for the time of a scope and
// has its own state again afterwards.
class DerivedSeed {
 public:
  explicit DerivedSeed(at::Device device);
  DerivedSeed(const DerivedSeed&) = delete;
  DerivedSeed& operator=(const DerivedSeed&) = delete;
  ~DerivedSeed();

 private:
  at::Generator generator_;
  c10::intrusive_ptr<c10::TensorImpl> state_;
};

}  // namespace rustdev
