//! `_fused_adam_`, `_fused_adamw_`, `_fused_sgd_`, `_fused_adagrad_`, and gradient scaling (`amp.rs`).

#![forbid(unsafe_code)]

pub mod kernel;
pub(crate) mod operator;
#[cfg(test)]
mod tests;
