//! `argmax`, `argmin`, `max.dim` and `min.dim`. Operands: [indices, input] or [values, indices, input], over the input's sizes. The outputs
//! have stride 0 in the one reduced dimension. Indices are Long.

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

/// `aten::max.dim`: the greatest values and their first index; NaN is greater than everything.
pub fn max_dim(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL, T => argminmax::run::<T, true>(launch))
}

/// `aten::min.dim`: the least values and their first index; NaN is less than everything.
pub fn min_dim(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL, T => argminmax::run::<T, false>(launch))
}

/// `aten::argmax`: the first index of the greatest value.
pub fn argmax(launch: &Launch<'_>) -> Result<(), Error> {
    max_dim(launch)
}

/// `aten::argmin`: the first index of the least value.
pub fn argmin(launch: &Launch<'_>) -> Result<(), Error> {
    min_dim(launch)
}
