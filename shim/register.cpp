// The table of functions by which the core calls PyTorch. The shim registers it when it is loaded.
#include <ATen/Context.h>
#include <ATen/cpu/Utils.h>

#include "check.h"
#include "ops/fallback.h"
#include "ops/tier.h"
#include "runtime/sync_debug.h"
#include "rustdev_operators.h"
#include "torch_version.h"

namespace rustdev {
namespace {

bool has_mkl() { return at::hasMKL(); }

bool has_amx() {
  static const bool has_amx = at::cpu::get_cpu_capabilities()["amx_tile"].toBool();
  return has_amx;
}

bool has_complex_bfloat16() { return RUSTDEV_TORCH_HAS_BCOMPLEX32; }

bool is_deterministic() { return at::globalContext().deterministicAlgorithms(); }

int32_t default_dtype() { return static_cast<int32_t>(c10::get_default_dtype_as_scalartype()); }

void visit_tiers(rd_shim_visit_tier visit, void* context) {
  for (const auto& [name, tier] : tiers()) {
    visit(context, name.c_str(), tier);
  }
}

// Runs before the constructors of statics, which register operators and may call the core.
__attribute__((constructor(101))) void register_shim() {
  const rd_shim functions{&has_mkl,           &has_amx,     &has_complex_bfloat16, &is_deterministic, &default_dtype,
                          &register_fallback, &visit_tiers, &change_wait_flags,    &set_race_type};
  rd_shim_register(&functions);
}

}  // namespace
}  // namespace rustdev
