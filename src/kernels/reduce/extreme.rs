//! The greatest and least elements with their places. Operands: [places, input] or [values, places, input], over the input's sizes; the
//! outputs have stride 0 in the one dimension that is reduced, and places are of dtype Long.

#![forbid(unsafe_code)]

use crate::tensor::dtype::dispatch;
use crate::tensor::launch::Launch;
use crate::tensor::loops::reduce::extreme;

/// `aten::max.dim`: the greatest values and where each is first; NaN is greater than everything. Operands [values, places, input].
///
/// # Errors
/// A dtype outside the table's.
pub fn max_dim(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL, T => extreme::run::<T, true>(launch))
}

/// `aten::min.dim`: the least values and where each is first; NaN is less than everything. Operands [values, places, input].
///
/// # Errors
/// A dtype outside the table's.
pub fn min_dim(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL, T => extreme::run::<T, false>(launch))
}

/// `aten::argmax`: where the greatest value is first. Operands [places, input].
///
/// # Errors
/// A dtype outside the table's.
pub fn argmax(launch: &Launch<'_>) -> Result<(), String> {
    max_dim(launch)
}

/// `aten::argmin`: where the least value is first. Operands [places, input].
///
/// # Errors
/// A dtype outside the table's.
pub fn argmin(launch: &Launch<'_>) -> Result<(), String> {
    min_dim(launch)
}
