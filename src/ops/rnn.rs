//! Recurrent layers over whole sequences (`lstm`, `gru`, `rnn_tanh`, `rnn_relu`) and their cells (`_thnn_fused_lstm_cell`,
//! `_thnn_fused_gru_cell`).

#![forbid(unsafe_code)]

pub mod kernel;
pub(crate) mod operator {
    pub mod cell;
    pub mod layer;
}
