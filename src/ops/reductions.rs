//! Reductions to one value per output: `sum`, `mean`, `prod`, `amax`, `max`, `argmax`, `any`, `all`, `count_nonzero`, `var`, `std`,
//! `linalg_vector_norm`.
//!
//! Operands of the kernels: [out, input], both of the input's sizes; out has stride 0 in the reduced dimensions. The input is
//! cast to the compute dtype, which is out's unless stated otherwise, and folded in the opmath type of that dtype.

#![forbid(unsafe_code)]

pub mod kernel {
    pub mod amax;
    pub mod count;
    pub mod norm;
    pub mod sum;
    pub mod var;
}
pub(crate) mod operator;
#[cfg(test)]
mod tests;
