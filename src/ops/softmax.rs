//! `_softmax`, `_log_softmax` and their gradients.

pub mod kernel;
#[forbid(unsafe_code)]
pub(crate) mod operator;
#[cfg(test)]
mod tests;
