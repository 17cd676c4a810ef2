//! `copy_`, `fill_`, `zero_`. `shim/ops/copy.cpp` launches the kernels.

pub mod kernel;
