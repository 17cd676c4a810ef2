// The device generator's (seed, offset) as the seed of a CPU generator: see fallback_random.h.
#include "ops/fallback_random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>

#include "tensor.h"

namespace rustdev {
namespace {

// One draw of the CPU kernel counts as one Philox block of the device's generator.
constexpr uint64_t offset_step = 4;

// splitmix64's finaliser: neighbouring offsets give unrelated seeds.
uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

uint64_t next_seed(at::Generator generator) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  const uint64_t seed = generator.current_seed();
  const uint64_t offset = generator.get_offset();
  generator.set_offset(offset + offset_step);
  return mix(mix(seed + 0x9e3779b97f4a7c15ULL) + offset);
}

}  // namespace

at::Generator derived_generator(const at::Generator& given, at::Device device) {
  const at::Generator& generator = given.defined() ? given : at::globalContext().defaultGenerator(device);
  TORCH_CHECK(generator.device().type() == device_type, "Expected a 'rustdev' device type for generator but found '",
              generator.device().type(), "'");
  return at::detail::createCPUGenerator(next_seed(generator));
}

DerivedSeed::DerivedSeed(at::Device device) : generator_(at::detail::getDefaultCPUGenerator()) {
  const uint64_t seed = next_seed(at::globalContext().defaultGenerator(device));
  const std::lock_guard<std::mutex> lock(generator_.mutex());
  state_ = generator_.unsafeGetGeneratorImpl()->get_state();
  generator_.set_current_seed(seed);
}

DerivedSeed::~DerivedSeed() {
  const std::lock_guard<std::mutex> lock(generator_.mutex());
  generator_.unsafeGetGeneratorImpl()->set_state(*state_);
}

}  // namespace rustdev
