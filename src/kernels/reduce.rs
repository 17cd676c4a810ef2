//! Reductions to one value per output. Operands: [out, input], both of the input's sizes; out has stride 0 in the reduced
//! dimensions. The input is cast to the compute dtype, which is out's unless stated otherwise, and folded in the opmath type of
//! that dtype.

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
