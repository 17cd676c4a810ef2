// Random generators of rustdev devices, and the operator that gives Python the default ones.
#include "runtime/generator.h"

#include <array>
#include <cstring>
#include <deque>
#include <utility>

#include <ATen/EmptyTensor.h>
#include <c10/core/TensorImpl.h>
#include <torch/library.h>

#include "check.h"
#include "runtime/guard.h"
#include "rustdev.h"

namespace rustdev {

namespace {

constexpr size_t kStateBytes = 2 * sizeof(uint64_t);
constexpr uint64_t kPhiloxBlock = 4;

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the state is stored little endian");

void check_offset(uint64_t offset) {
  TORCH_CHECK(offset % kPhiloxBlock == 0, "offset must be a multiple of ", kPhiloxBlock, ", got ", offset);
}

}  // namespace

Generator::Generator(c10::DeviceIndex device)
    : c10::GeneratorImpl(c10::Device(device_type(), device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      shared_(c10::make_intrusive<Shared>()) {}

PhiloxState Generator::Shared::advance(uint64_t increment) {
  const uint64_t blocks = increment / kPhiloxBlock + (increment % kPhiloxBlock != 0 ? 1 : 0);
  const std::lock_guard<std::mutex> lock(mutex);
  const PhiloxState start = state;
  state.offset += blocks * kPhiloxBlock;
  return start;
}

PhiloxState Generator::philox_state(uint64_t increment) { return shared_->advance(increment); }

std::optional<rd_cell> Generator::captured_state(uint64_t increment) {
  const auto retain = [](void* state) { c10::raw::intrusive_ptr::incref(static_cast<Shared*>(state)); };
  const auto release = [](void* state) { c10::raw::intrusive_ptr::decref(static_cast<Shared*>(state)); };
  rd_cell cell{};
  bool captures = false;
  RD_CHECK(rd_capture_draw(device().index(), shared_.get(), retain, release, increment, &cell, &captures));
  return captures ? std::optional<rd_cell>(cell) : std::nullopt;
}

void Generator::refuse_capturing(const char* method) const { RD_CHECK(rd_capture_refuse(device().index(), method)); }

PhiloxState Generator::snapshot() const {
  const std::lock_guard<std::mutex> lock(shared_->mutex);
  return shared_->state;
}

void Generator::replace(PhiloxState state) {
  const std::lock_guard<std::mutex> lock(shared_->mutex);
  shared_->state = state;
}

void Generator::set_current_seed(uint64_t seed) {
  refuse_capturing("seeding a generator");
  replace({seed, 0});
}

void Generator::set_offset(uint64_t offset) {
  check_offset(offset);
  refuse_capturing("setting the offset of a generator");
  const std::lock_guard<std::mutex> lock(shared_->mutex);
  shared_->state.offset = offset;
}

uint64_t Generator::get_offset() const { return snapshot().offset; }

uint64_t Generator::current_seed() const { return snapshot().seed; }

uint64_t Generator::seed() {
  const uint64_t seed = c10::detail::getNonDeterministicRandom(/*is_cuda=*/true);
  set_current_seed(seed);
  return seed;
}

c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const {
  const PhiloxState state = snapshot();
  const std::array<uint64_t, 2> words{state.seed, state.offset};
  at::Tensor bytes = at::detail::empty_cpu({static_cast<int64_t>(kStateBytes)}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), words.data(), kStateBytes);
  return bytes.getIntrusivePtr();
}

void Generator::set_state(const c10::TensorImpl& new_state) {
  at::detail::check_rng_state(new_state);
  TORCH_CHECK(new_state.numel() == static_cast<int64_t>(kStateBytes), "RNG state of a rustdev generator has ", kStateBytes,
              " bytes (seed, offset), got ", new_state.numel());
  std::array<uint64_t, 2> words{};
  std::memcpy(words.data(), new_state.data(), kStateBytes);
  check_offset(words[1]);
  refuse_capturing("setting the state of a generator");
  replace({words[0], words[1]});
}

c10::intrusive_ptr<c10::GeneratorImpl> Generator::graphsafe_get_state() const {
  auto alias = c10::make_intrusive<Generator>(device().index());
  alias->shared_ = shared_;
  return alias;
}

void Generator::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& new_state) {
  const auto other = c10::dynamic_intrusive_pointer_cast<Generator>(new_state);
  TORCH_CHECK(other, "expected the state of a rustdev generator");
  shared_ = other->shared_;
}

#if RUSTDEV_TORCH_HAS_GENERATOR_PHILOX_STATE
void Generator::philox_state(uint64_t increment, at::Tensor& seed, at::Tensor& offset, at::Tensor& intragraph_offset) {
  refuse_capturing("reading the state of a generator");
  const PhiloxState start = philox_state(increment);
  const std::array<std::pair<at::Tensor*, uint64_t>, 3> outputs{
      {{&seed, start.seed}, {&offset, start.offset}, {&intragraph_offset, 0}}};
  for (const auto& [tensor, value] : outputs) {
    *tensor = at::detail::empty_cpu({1}, at::kLong);
    std::memcpy(tensor->mutable_data_ptr(), &value, sizeof(value));
  }
}
#endif

Generator* Generator::clone_impl() const {
  auto* copy = new Generator(device().index());
  copy->replace(snapshot());
  return copy;
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  // Never destroyed: tasks and other threads may draw while the process ends.
  static const auto* generators = [] {
    auto* made = new std::deque<at::Generator>();
    for (int32_t index = 0; index < rd_device_count(); ++index) {
      made->push_back(at::make_generator<Generator>(static_cast<c10::DeviceIndex>(index)));
      made->back().seed();
    }
    return made;
  }();
  return generators->at(device_index(c10::Device(c10::DeviceType::PrivateUse1, device)));
}

Generator& generator(const std::optional<at::Generator>& given, c10::Device device) {
  const c10::DeviceIndex index = device_index(device);
  auto& chosen = *at::get_generator_or_default<Generator>(given, default_generator(index));
  const c10::DeviceIndex owner = device_index(chosen.device());
  TORCH_CHECK(owner == index, "Expected a generator of rustdev:", static_cast<int>(index),
              ", got one of rustdev:", static_cast<int>(owner));
  return chosen;
}

std::array<rd_scalar, 2> draw_state(const std::optional<at::Generator>& given, c10::Device device, uint64_t count) {
  Generator& chosen = generator(given, device);
  if (const std::optional<rd_cell> cell = chosen.captured_state(count)) {
    return {rd_scalar{RD_SCALAR_CELL, cell->seed, 0.0, 0.0}, rd_scalar{RD_SCALAR_CELL, cell->offset, 0.0, 0.0}};
  }
  const PhiloxState state = chosen.philox_state(count);
  const auto number = [](uint64_t value) {
    const auto integer = static_cast<int64_t>(value);
    return rd_scalar{static_cast<int32_t>(c10::ScalarType::Long), integer, static_cast<double>(integer), 0.0};
  };
  return {number(state.seed), number(state.offset)};
}

namespace {

at::Generator python_default_generator(int64_t device) {
  TORCH_CHECK(device >= 0 && device < rd_device_count(), "invalid device index ", device);
  return default_generator(static_cast<c10::DeviceIndex>(device));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(rustdev, m) { m.def("default_generator(int device) -> Generator?", &python_default_generator); }

}  // namespace rustdev
