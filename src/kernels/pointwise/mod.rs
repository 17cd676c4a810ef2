//! Elementwise kernels, by family. Operands: [out, inputs...], all of the same sizes.

#![forbid(unsafe_code)]

pub mod arithmetic;
