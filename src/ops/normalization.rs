//! `native_layer_norm`, `native_batch_norm`, `native_group_norm` and their gradients; the last two are `channel_norm`.

#![forbid(unsafe_code)]

pub mod kernel {
    pub mod channel_norm;
    pub mod layer_norm;
    pub mod mean_variance;
}
pub(crate) mod operator {
    pub mod channel_norm;
    pub mod layer_norm;
}
#[cfg(test)]
mod tests;
