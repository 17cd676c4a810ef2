//! `copy_`, `fill_`, `zero_`. `shim/ops/copy.cpp` launches the kernels.

#![forbid(unsafe_code)]

pub mod kernel;
