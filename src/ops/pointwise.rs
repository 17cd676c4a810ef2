//! Functions of single elements: arithmetic, comparisons, mathematical functions, activations and their gradients. Each
//! overload has a line of `operator/table.rs`.

#![forbid(unsafe_code)]

pub mod kernel;
pub(crate) mod operator;
#[cfg(test)]
mod tests;
