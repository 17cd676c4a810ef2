// Differences between the minor releases of PyTorch that the shim builds against. No other file tests TORCH_VERSION_MINOR.
#pragma once

#include <torch/headeronly/version.h>

#if TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR < 13 || TORCH_VERSION_MINOR > 15
#error "rustdev builds against torch 2.13, 2.14 and 2.15"
#endif

// c10::GeneratorImpl::philox_state, which hands (seed, offset) to extensions as tensors.
#define RUSTDEV_TORCH_HAS_GENERATOR_PHILOX_STATE (TORCH_VERSION_MINOR >= 15)

// at::GraphImplInterface, by which torch.accelerator.Graph reaches a backend's graphs.
#define RUSTDEV_TORCH_HAS_GRAPHS __has_include(<ATen/core/GraphImplInterface.h>)

// Complex numbers of two BFloat16.
#define RUSTDEV_TORCH_HAS_BCOMPLEX32 (TORCH_VERSION_MINOR >= 15)
