//! `_softmax`, `_log_softmax` and their gradients.

#![forbid(unsafe_code)]

pub mod kernel;
pub(crate) mod operator;
#[cfg(test)]
mod tests;
