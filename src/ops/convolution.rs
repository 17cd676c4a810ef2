//! `convolution_overrideable` and its backward, with depthwise convolutions of their own (`kernel/depthwise.rs`).

pub mod kernel;
#[forbid(unsafe_code)]
pub(crate) mod operator;
#[cfg(test)]
mod tests;
