//! `_fft_c2c`, `_fft_r2c`, `_fft_c2r`: tasks of PyTorch's kernels.

#![forbid(unsafe_code)]

pub(crate) mod operator;
