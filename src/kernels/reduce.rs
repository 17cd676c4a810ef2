//! Reductions to one value per output. Operands: [out, input], both of the input's sizes; out has stride 0 in the dimensions that are
//! reduced. The input is cast to the compute dtype, which is out's unless said otherwise, and folded in that dtype's opmath.

#![forbid(unsafe_code)]

pub mod count;
pub mod extreme;
pub mod limit;
pub mod moment;
pub mod norm;
pub mod product;
pub mod sum;

#[cfg(test)]
mod tests;
