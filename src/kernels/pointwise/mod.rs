//! Elementwise kernels, by family. Operands: [out, inputs...], all of the same sizes.

#![forbid(unsafe_code)]

pub mod activation;
pub mod arithmetic;
pub mod compare;
pub mod special;
