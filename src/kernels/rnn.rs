//! Recurrent layers: one step of an LSTM ([`cell`]), and layers over whole sequences: [`lstm`], [`gru`] and [`elman`].

pub mod cell;
pub mod elman;
mod formulas;
pub mod gru;
pub mod lstm;
#[cfg(test)]
mod rnn_tests;
pub mod sequence;
