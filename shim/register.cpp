// The table of functions by which the core calls PyTorch. The shim registers it when it is loaded.
#include <ATen/Context.h>
#include <ATen/cpu/Utils.h>
#include <pthread.h>

#include "check.h"
#include "runtime/sync_debug.h"
#include "rustdev_operators.h"
#include "torch_version.h"

namespace rustdev {
namespace {

// Runs before the constructors of statics, which register operators and may call the core.
__attribute__((constructor(101))) void register_shim() {
  const rd_shim functions{
      .has_mkl = [] { return at::hasMKL(); },
      .has_amx =
          [] {
            static const bool has_amx = at::cpu::get_cpu_capabilities()["amx_tile"].toBool();
            return has_amx;
          },
      .has_complex_bfloat16 = [] { return bool{RUSTDEV_TORCH_HAS_BCOMPLEX32}; },
      .is_deterministic = [] { return at::globalContext().deterministicAlgorithms(); },
      .allows_tf32 =
          [](bool is_convolution) {
            const auto op = is_convolution ? at::Float32Op::CONV : at::Float32Op::MATMUL;
            return at::globalContext().float32Precision(at::Float32Backend::CUDA, op) == at::Float32Precision::TF32;
          },
      .default_dtype = [] { return static_cast<int32_t>(c10::get_default_dtype_as_scalartype()); },
      .change_wait_flags = &change_wait_flags,
      .set_race_type = &set_race_type,
  };
  rd_shim_register(&functions);
  // A forked child has none of the parent's threads: the runtime is unusable there.
  pthread_atfork(nullptr, nullptr, rd_fork_child);
}

}  // namespace
}  // namespace rustdev
