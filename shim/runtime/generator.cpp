// Random generators of rustdev devices: PyTorch's interface over src/runtime/generator.rs, and the operator that gives Python the
// default ones.
#include <ATen/EmptyTensor.h>
#include <c10/core/GeneratorImpl.h>
#include <c10/core/TensorImpl.h>

#include <cstring>
#include <deque>

#include "runtime/runtime.h"
#include "tensor.h"
#include "torch_version.h"

namespace rustdev {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && sizeof(rd_philox_state) == 16, "the state is stored as it is in memory");

at::Tensor packed(int64_t count, c10::ScalarType dtype, const void* data) {
  at::Tensor values = at::detail::empty_cpu({count}, dtype);
  std::memcpy(values.mutable_data_ptr(), data, values.nbytes());
  return values;
}

class Generator final : public c10::GeneratorImpl {
 public:
  // Takes ownership of one reference to the state. No dispatch key: only the tensors of a call select its kernel, which refuses a
  // generator of another device.
  Generator(c10::DeviceIndex device, rd_generator* state)
      : c10::GeneratorImpl(device_at(device), c10::DispatchKeySet()), state_(state) {}

  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  const rd_generator* state() const { return state_.get(); }

  // Sets the offset to 0, too.
  void set_current_seed(uint64_t seed) override { set({seed, 0}, "seeding a generator"); }

  void set_offset(uint64_t offset) override { set({current_seed(), offset}, "setting the offset of a generator"); }

  uint64_t get_offset() const override { return rd_generator_state(state()).offset; }

  uint64_t current_seed() const override { return rd_generator_state(state()).seed; }

  // Draws a seed from the machine's entropy.
  uint64_t seed() override {
    const uint64_t seed = c10::detail::getNonDeterministicRandom(/*is_cuda=*/true);
    set_current_seed(seed);
    return seed;
  }

  // 16 bytes: seed and offset, 64 bits each, little endian.
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    const rd_philox_state words = rd_generator_state(state());
    return packed(sizeof(words), at::kByte, &words).getIntrusivePtr();
  }

  void set_state(const c10::TensorImpl& new_state) override {
    at::detail::check_rng_state(new_state);
    rd_philox_state words;
    TORCH_CHECK(new_state.numel() == sizeof(words), "RNG state of a ", rd_backend_name(), " generator has ", sizeof(words),
                " bytes (seed, offset), got ", new_state.numel());
    std::memcpy(&words, new_state.data(), sizeof(words));
    set(words, "setting the state of a generator");
  }

  // A generator that shares this one's state; and the setter that makes this one share another's.
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override {
    return c10::make_intrusive<Generator>(device().index(), rd_generator_share(state()));
  }

  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& new_state) override {
    const auto other = c10::dynamic_intrusive_pointer_cast<Generator>(new_state);
    TORCH_CHECK(other, "expected the state of a ", rd_backend_name(), " generator");
    state_.reset(rd_generator_share(other->state()));
  }

#if RUSTDEV_TORCH_HAS_GENERATOR_PHILOX_STATE
  void philox_state(uint64_t increment, at::Tensor& seed, at::Tensor& offset, at::Tensor& intragraph_offset) override {
    rd_philox_state start{};
    RD_CHECK(rd_generator_advance(state(), device().index(), increment, &start));
    const uint64_t zero = 0;
    seed = packed(1, at::kLong, &start.seed);
    offset = packed(1, at::kLong, &start.offset);
    intragraph_offset = packed(1, at::kLong, &zero);
  }
#endif

 private:
  // `what` names the change, which a capture refuses.
  void set(rd_philox_state words, const char* what) { RD_CHECK(rd_generator_set_state(state(), device().index(), words, what)); }

  Generator* clone_impl() const override {
    return new Generator(device().index(), rd_generator_create(rd_generator_state(state())));
  }

  Owned<rd_generator, rd_generator_release> state_;
};

}  // namespace

at::Generator new_generator(c10::DeviceIndex device) {
  return at::make_generator<Generator>(device, rd_generator_create({c10::default_rng_seed_val, 0}));
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  // Never destroyed: tasks and other threads may draw while the process ends.
  static const auto* generators = [] {
    auto* made = new std::deque<at::Generator>();
    for (int32_t index = 0; index < rd_device_count(); ++index) {
      made->push_back(new_generator(static_cast<c10::DeviceIndex>(index)));
      made->back().seed();
    }
    return made;
  }();
  return generators->at(device_index(device_at(device)));
}

const rd_generator* generator_state(const std::optional<at::Generator>& given, c10::Device device) {
  const c10::DeviceIndex index = device_index(device);
  const auto* const chosen = at::get_generator_or_default<Generator>(given, default_generator(index));
  const c10::DeviceIndex owner = device_index(chosen->device());
  TORCH_CHECK(owner == index, "Expected a generator of ", rd_backend_name(), ":", static_cast<int>(index), ", got one of ",
              rd_backend_name(), ":", static_cast<int>(owner));
  return chosen->state();
}

static at::Generator python_default_generator(int64_t device) {
  TORCH_CHECK(device >= 0 && device < rd_device_count(), "invalid device index ", device);
  return default_generator(static_cast<c10::DeviceIndex>(device));
}

TORCH_LIBRARY_FRAGMENT(rustdev, m) { m.def("default_generator(int device) -> Generator?", &python_default_generator); }

}  // namespace rustdev
