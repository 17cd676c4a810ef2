//! Kernels that move elements or number them: `cat`, `flip`, `roll`, triangles, padding, windows, ranges.

#![forbid(unsafe_code)]

pub mod cat_flip_roll;
pub mod pad;
pub mod range_factories;
pub mod triangle;
pub mod unfold;

use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;

/// A whole number among the scalars that is not negative.
fn count(launch: &Launch<'_>, index: usize) -> Result<usize, Error> {
    let value: i64 = launch.scalar(index)?.to();
    usize::try_from(value).map_err(|_| Error::parameter(format!("scalar {index} is {value}")))
}

/// A whole number among the scalars.
fn whole(launch: &Launch<'_>, index: usize) -> Result<i64, Error> {
    Ok(launch.scalar(index)?.to())
}

/// # Errors
/// Another number of operands.
fn check(launch: &Launch<'_>, operands: usize) -> Result<(), Error> {
    match launch.num_operands() {
        found if found == operands => Ok(()),
        found => Err(Error::operands(format!("{found} operands where {operands} are needed"))),
    }
}

#[cfg(test)]
mod movement_tests;
