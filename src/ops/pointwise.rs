//! Functions of single elements: arithmetic, comparisons, mathematical functions, activations and their gradients. Each
//! overload has a line of `operator/table.rs`.

pub mod kernel;
#[forbid(unsafe_code)]
pub(crate) mod operator;
#[cfg(test)]
mod tests;
