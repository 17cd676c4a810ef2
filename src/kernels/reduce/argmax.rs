//! `argmax`, `argmin`, `max.dim` and `min.dim`. Operands: [indices, input] or [values, indices, input], over the input's sizes. The
//! outputs have stride 0 in the one reduced dimension. Indices are Long.

#![forbid(unsafe_code)]

use crate::kernels::signature::signature;
use crate::tensor::dtype::dispatch;
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::reduction::argminmax;

signature! {
    max_dim(values, indices, input)[] in REAL | BOOL;
    min_dim(values, indices, input)[] in REAL | BOOL;
    argmax(indices, input)[] in REAL;
    argmin(indices, input)[] in REAL;
}

/// `aten::max.dim`: the maxima and their first indices; NaN counts as the maximum.
pub fn max_dim(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL, T => argminmax::run::<T, true>(launch))
}

/// `aten::min.dim`: the minima and their first indices; NaN counts as the minimum.
pub fn min_dim(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL, T => argminmax::run::<T, false>(launch))
}

/// `aten::argmax`: the first index of the maximum.
pub fn argmax(launch: &Launch<'_>) -> Result<(), Error> {
    max_dim(launch)
}

/// `aten::argmin`: the first index of the minimum.
pub fn argmin(launch: &Launch<'_>) -> Result<(), Error> {
    min_dim(launch)
}
