// Random generators of rustdev devices: Philox 4x32-10, whose whole state is a seed and an offset.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include "rustdev.h"
#include "torch_version.h"

namespace rustdev {

// Where a kernel starts to draw: `offset` counts 32-bit random numbers and is a multiple of 4, the size of a Philox block.
struct PhiloxState {
  uint64_t seed = c10::default_rng_seed_val;
  uint64_t offset = 0;
};

class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex device);

  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  // Reserves `increment` 32-bit random numbers (rounded up to whole Philox blocks) and returns where they start. Call it when the
  // kernel is submitted: the numbers then depend on the order of submission only, not on how streams and threads run. Takes the
  // lock of the state itself; the caller may hold mutex_ or not.
  PhiloxState philox_state(uint64_t increment);

  // As philox_state, if the device's current stream captures a graph: where the kernel finds that state at each replay.
  std::optional<rd_cell> captured_state(uint64_t increment);

  void set_current_seed(uint64_t seed) override;  // and the offset to 0
  void set_offset(uint64_t offset) override;      // a multiple of 4
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;  // draws a seed from the machine's entropy

  // 16 bytes: seed and offset, 64 bits each, little endian.
  void set_state(const c10::TensorImpl& new_state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // The state has its own lock because several generators, and graphs that draw from it, may share it.
  struct Shared final : c10::intrusive_ptr_target {
    mutable std::mutex mutex;
    PhiloxState state;

    // As Generator::philox_state.
    PhiloxState advance(uint64_t increment);
  };

  // A generator that shares this one's state, and the way to take over such a state.
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& new_state) override;

#if RUSTDEV_TORCH_HAS_GENERATOR_PHILOX_STATE
  void philox_state(uint64_t increment, at::Tensor& seed, at::Tensor& offset, at::Tensor& intragraph_offset) override;
#endif

 private:
  void refuse_capturing(const char* method) const;
  PhiloxState snapshot() const;
  void replace(PhiloxState state);
  Generator* clone_impl() const override;

  c10::intrusive_ptr<Shared> shared_;
};

// The default generator of a device, seeded from the machine's entropy when it is first asked for.
const at::Generator& default_generator(c10::DeviceIndex device);

// The generator that an operator on `device` draws from: the one given, which must belong to that device, else the default one.
Generator& generator(const std::optional<at::Generator>& given, c10::Device device);

// Takes `count` random numbers of 32 bits of that generator for a launch: the scalars seed and offset, which are cells while the
// device's current stream captures.
std::array<rd_scalar, 2> draw_state(const std::optional<at::Generator>& given, c10::Device device, uint64_t count);

}  // namespace rustdev
