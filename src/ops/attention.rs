//! `_scaled_dot_product_flash_attention_for_cpu` and its gradient; `_native_multi_head_attention` and
//! `_transformer_encoder_layer_fwd` (`operator/transformer.rs`).

#![forbid(unsafe_code)]

pub mod kernel;
pub(crate) mod operator;
#[cfg(test)]
mod tests;
