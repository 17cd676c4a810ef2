//! `amax`, `amin`, `aminmax`, `argmax`, `argmin`, `max.dim` and `min.dim`. Operands: [outputs..., input], over the input's sizes.
//! The outputs have stride 0 in the reduced dimensions; those of the last four, whose indices are Long, reduce one dimension.

use crate::tensor::inlined::inlined;
use crate::tensor::loops::reduction::argminmax;
use crate::tensor::loops::reduction::fold::{self, Fold};
use crate::tensor::loops::reduction::minmax_fold::MinMax;
use crate::tensor::{Ordered, signature};

signature! {
    /// `aten::amax`: the maximum; NaN if any value is NaN.
    amax(out; input)[] in REAL | BOOL => |launch, T| fold::run::<T, T, _>(launch, MinMax::<true>);
    /// `aten::amin`: the minimum; NaN if any value is NaN.
    amin(out; input)[] in REAL | BOOL => |launch, T| fold::run::<T, T, _>(launch, MinMax::<false>);
    /// `aten::aminmax`: the minimum and the maximum; both NaN if any value is NaN.
    aminmax(least, greatest; input)[] in REAL | BOOL => |launch, T| {
        // The maximum is NaN if any value is NaN.
        fold::run_both::<T, _, _, _>(launch, Least, MinMax::<true>, |least, greatest| {
            [if greatest.is_nan() { greatest } else { least }, greatest]
        })
    };
    /// `aten::max.dim`: the maxima and their first indices; NaN counts as the maximum.
    max_dim(values, indices; input)[] in REAL | BOOL => |launch, T| argminmax::run::<T, true>(launch);
    /// `aten::min.dim`: the minima and their first indices; NaN counts as the minimum.
    min_dim(values, indices; input)[] in REAL | BOOL => |launch, T| argminmax::run::<T, false>(launch);
    /// `aten::argmax`: the first index of the maximum.
    argmax(indices; input)[] in REAL => |launch| max_dim(launch);
    /// `aten::argmin`: the first index of the minimum.
    argmin(indices; input)[] in REAL => |launch| min_dim(launch);
}

/// The minimum; unspecified if a value is NaN, which the caller detects by the maximum.
#[derive(Clone, Copy)]
struct Least;

impl<V: Ordered> Fold<V> for Least {
    type State = V;
    type Output = V;
    const IDEMPOTENT: bool = true;

    inlined! {
        fn start(self, first: V) -> V = first;
        fn lift(self, value: V) -> V = value;
        fn merge(self, left: V, right: V) -> V = left.lesser(right);
        fn finish(self, least: V, _: usize) -> V = least;
    }

    #[inline(always)]
    fn lift_four(self, [first, second, third, fourth]: [V; 4]) -> V {
        let nearer = |left: V, right: V| if left < right { left } else { right };
        nearer(nearer(first, second), nearer(third, fourth))
    }
}
