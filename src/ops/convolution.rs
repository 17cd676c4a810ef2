//! `convolution_overrideable` and its backward, for every `conv*` and `conv_transpose*`. `operator.rs` chooses who computes a call:
//! the kernel for depthwise convolutions (`kernel/depthwise.rs`), that for others on AVX2 (`kernel.rs`), or oneDNN as a task.

pub mod kernel;
#[forbid(unsafe_code)]
pub(crate) mod operator;
#[cfg(test)]
mod tests;
