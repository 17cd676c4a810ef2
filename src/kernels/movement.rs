//! Kernels that move or number elements: `cat`, `flip`, `roll`, triangles, padding, windows, ranges.

#![forbid(unsafe_code)]

pub mod cat_flip_roll;
pub mod pad;
pub mod range_factories;
pub mod triangle;
pub mod unfold;

use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Scalar;

/// A scalar as a nonnegative integer.
pub(super) fn count(scalar: Scalar) -> Result<usize, Error> {
    let value: i64 = scalar.to();
    usize::try_from(value).map_err(|_| Error::parameter(format!("a scalar is {value}")))
}

#[cfg(test)]
mod movement_tests;
