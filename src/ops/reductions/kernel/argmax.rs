//! `argmax`, `argmin`, `max.dim` and `min.dim`. Operands: [indices, input] or [values, indices, input], over the input's sizes. The
//! outputs have stride 0 in the one reduced dimension. Indices are Long.

#![forbid(unsafe_code)]

use crate::tensor::loops::reduction::argminmax;
use crate::tensor::signature;

signature! {
    /// `aten::max.dim`: the maxima and their first indices; NaN counts as the maximum.
    max_dim(values, indices; input)[] in REAL | BOOL => |launch, T| argminmax::run::<T, true>(launch);
    /// `aten::min.dim`: the minima and their first indices; NaN counts as the minimum.
    min_dim(values, indices; input)[] in REAL | BOOL => |launch, T| argminmax::run::<T, false>(launch);
    /// `aten::argmax`: the first index of the maximum.
    argmax(indices; input)[] in REAL => |launch| max_dim(launch);
    /// `aten::argmin`: the first index of the minimum.
    argmin(indices; input)[] in REAL => |launch| min_dim(launch);
}
