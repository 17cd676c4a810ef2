//! Copies, casts and fills.

#![forbid(unsafe_code)]

use crate::tensor::launch::Launch;
use crate::tensor::loops::movement;

/// `aten::copy_`: out = input, cast to out's dtype. Operands [out, input], of any two dtypes; the conjugate and negative flags of both are
/// honoured, immediate and host operands allowed.
///
/// # Errors
/// Two dtypes between which there is no conversion.
pub fn copy_(launch: &Launch<'_>) -> Result<(), String> {
    check(launch, 2)?;
    movement::copy(launch)
}

/// `aten::fill_`: out = value everywhere, cast to out's dtype. Operands [out, value]; the value is an immediate or a 0-dim tensor
/// broadcast to out's sizes.
///
/// # Errors
/// Two dtypes between which there is no conversion.
pub fn fill_(launch: &Launch<'_>) -> Result<(), String> {
    check(launch, 2)?;
    movement::fill(launch)
}

/// `aten::zero_`: out = 0 everywhere. Operands [out].
///
/// # Errors
/// The wrong number of operands.
pub fn zero_(launch: &Launch<'_>) -> Result<(), String> {
    check(launch, 1)?;
    movement::zero(launch);
    Ok(())
}

fn check(launch: &Launch<'_>, operands: usize) -> Result<(), String> {
    match launch.num_operands() {
        found if found == operands => Ok(()),
        found => Err(format!("{found} operands where {operands} are needed")),
    }
}
