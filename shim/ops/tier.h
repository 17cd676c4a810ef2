// Tiers of the operators, for coverage(): recorded by each registration.
#pragma once

namespace rustdev {

// Operators whose kernel on our key is not a Rust kernel, with the name of their tier.
inline std::unordered_map<std::string, const char*>& tiers() {
  static auto* const map = new std::unordered_map<std::string, const char*>;
  return *map;
}

// Registers a kernel and notes its tier: "aten" (PyTorch's own code), "composite" (made of other operators), "fallback", or null,
// which is not noted: for a Rust kernel, and for other keys than PrivateUse1.
template <class Kernel>
void impl(torch::Library& library, const char* tier, const char* name, Kernel&& kernel) {
  if (tier != nullptr) {
    tiers()[std::string("aten::").append(name)] = tier;
  }
  library.impl(name, std::forward<Kernel>(kernel));
}

}  // namespace rustdev
