//! Reductions to one value per output. Operands: [out, input], both of the input's sizes; out has stride 0 in the dimensions that are
//! reduced. The input is cast to the compute dtype, which is out's unless said otherwise, and folded in that dtype's opmath.

#![forbid(unsafe_code)]

pub mod amax;
pub mod argmax;
pub mod count;
pub mod norm;
pub mod product;
pub mod sum;
pub mod var;

#[cfg(test)]
mod reduce_tests;
