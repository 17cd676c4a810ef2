// The device generator's (seed, offset) as the seed of a CPU generator: see fallback_random.h.
#include "ops/fallback_random.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>
#include <optional>

#include "runtime/generator.h"

namespace rustdev {
namespace {

// One draw of the CPU kernel counts as one Philox block of the device's generator.
constexpr uint64_t offset_step = 4;

// splitmix64's finaliser: neighbouring offsets give unrelated seeds.
uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31U);
}

uint64_t next_seed(const std::optional<at::Generator>& given, at::Device device) {
  const PhiloxState state = generator(given, device).philox_state(offset_step);
  return mix(mix(state.seed + 0x9e3779b97f4a7c15ULL) + state.offset);
}

}  // namespace

at::Generator derived_generator(const at::Generator& given, at::Device device) {
  const auto chosen = given.defined() ? std::optional<at::Generator>(given) : std::nullopt;
  return at::detail::createCPUGenerator(next_seed(chosen, device));
}

DerivedSeed::DerivedSeed(at::Device device) : generator_(at::detail::getDefaultCPUGenerator()) {
  const uint64_t seed = next_seed(std::nullopt, device);
  const std::lock_guard<std::mutex> lock(generator_.mutex());
  state_ = generator_.unsafeGetGeneratorImpl()->get_state();
  generator_.set_current_seed(seed);
}

DerivedSeed::~DerivedSeed() {
  const std::lock_guard<std::mutex> lock(generator_.mutex());
  generator_.unsafeGetGeneratorImpl()->set_state(*state_);
}

}  // namespace rustdev
