//! Recurrent layers: one step of an LSTM ([`cell`]) and a layer over a whole sequence ([`sequence`]).

pub mod cell;
mod formulas;
pub mod sequence;
