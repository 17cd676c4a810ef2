//! `_scaled_dot_product_*` forward and backward, `_native_multi_head_attention`, `_transformer_encoder_layer_fwd`.

pub mod kernel;
#[forbid(unsafe_code)]
pub(crate) mod operator;
#[cfg(test)]
mod tests;
