// Tiers of the operators, for coverage(): recorded by each registration.
#pragma once

namespace rustdev {

// Operators whose kernel on our key is not a Rust kernel, with the name of their tier.
inline std::unordered_map<std::string, const char*>& tiers() {
  static auto* const map = new std::unordered_map<std::string, const char*>;
  return *map;
}

// Registers kernels and notes their tier: "aten" (PyTorch's own code), "composite" (made of other operators) or "fallback".
class Tier {
 public:
  Tier(torch::Library& library, const char* tier, bool noted = true) : library_(library), tier_(tier), noted_(noted) {}

  template <class Kernel>
  void impl(const char* name, Kernel&& kernel) {
    if (noted_) {
      tiers()[std::string("aten::").append(name)] = tier_;
    }
    library_.impl(name, std::forward<Kernel>(kernel));
  }

 private:
  torch::Library& library_;
  const char* tier_;
  bool noted_;
};

}  // namespace rustdev
