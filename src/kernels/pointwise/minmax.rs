//! Minimum and maximum of two numbers: `maximum`, `minimum`, `fmax`, `fmin`. Operands [out, lhs, rhs].

#![forbid(unsafe_code)]

use super::functions;
use crate::kernels::signature::signature;
use crate::tensor::loops::elementwise::{Map, run};
use crate::tensor::number::Ordered;

signature! {
    /// `aten::maximum`: the maximum; NaN if either is NaN.
    maximum(out; lhs, rhs)[] in ORDERED => |launch, T| run::<T, T, _, 2>(launch, Maximum);
    /// `aten::minimum`: the minimum; NaN if either is NaN.
    minimum(out; lhs, rhs)[] in ORDERED => |launch, T| run::<T, T, _, 2>(launch, Minimum);
}

functions! {
    /// `aten::fmax`: the maximum; if one is NaN, the other one.
    fmax, Fmax, ORDERED, Ordered, [], |[lhs, rhs]| if lhs >= rhs || rhs.is_nan() { lhs } else { rhs };
    /// `aten::fmin`: the minimum; if one is NaN, the other one.
    fmin, Fmin, ORDERED, Ordered, [], |[lhs, rhs]| if lhs <= rhs || rhs.is_nan() { lhs } else { rhs };
}

#[derive(Clone, Copy)]
struct Maximum;

impl<T: Ordered> Map<T, 2> for Maximum {
    type Output = T;

    #[inline(always)]
    fn apply(self, [lhs, rhs]: [T; 2]) -> T {
        lhs.maximum(rhs)
    }
}

#[derive(Clone, Copy)]
struct Minimum;

impl<T: Ordered> Map<T, 2> for Minimum {
    type Output = T;

    #[inline(always)]
    fn apply(self, [lhs, rhs]: [T; 2]) -> T {
        lhs.minimum(rhs)
    }
}
