//! `_scaled_dot_product_flash_attention_for_cpu` and its gradient.

#![forbid(unsafe_code)]

pub mod kernel;
pub(crate) mod operator;
#[cfg(test)]
mod tests;
