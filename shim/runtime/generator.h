// Random generators of rustdev devices: PyTorch's interface over src/runtime/generator.rs.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include "rustdev.h"
#include "torch_version.h"

namespace rustdev {

class Generator final : public c10::GeneratorImpl {
 public:
  // Takes ownership of one reference to the state.
  Generator(c10::DeviceIndex device, const rd_generator* state);

  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  const rd_generator* state() const { return state_.get(); }

  void set_current_seed(uint64_t seed) override;  // and the offset to 0
  void set_offset(uint64_t offset) override;      // a multiple of 4
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;  // draws a seed from the machine's entropy

  // 16 bytes: seed and offset, 64 bits each, little endian.
  void set_state(const c10::TensorImpl& new_state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // A generator that shares this one's state; and the setter that makes this one share another's.
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& new_state) override;

#if RUSTDEV_TORCH_HAS_GENERATOR_PHILOX_STATE
  void philox_state(uint64_t increment, at::Tensor& seed, at::Tensor& offset, at::Tensor& intragraph_offset) override;
#endif

 private:
  struct Release {
    void operator()(const rd_generator* state) const { rd_generator_release(state); }
  };

  Generator* clone_impl() const override;

  std::unique_ptr<const rd_generator, Release> state_;
};

// A new generator of a device, with PyTorch's default seed.
at::Generator new_generator(c10::DeviceIndex device);

// The default generator of a device, seeded from the machine's entropy when it is first asked for.
const at::Generator& default_generator(c10::DeviceIndex device);

// The generator that an operator on `device` draws from: the one given, which must belong to that device, else the default one.
Generator& generator(const std::optional<at::Generator>& given, c10::Device device);

// Reserves `count` random numbers of 32 bits for a launch. Returns the scalars seed and offset, which are cells while the device's
// current stream captures.
std::array<rd_scalar, 2> draw_state(const std::optional<at::Generator>& given, c10::Device device, uint64_t count);

}  // namespace rustdev
