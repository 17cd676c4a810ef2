//! Minimum and maximum of two numbers: `maximum`, `minimum`, `fmax`, `fmin`. Operands [out, lhs, rhs].

#![forbid(unsafe_code)]

use super::functions;
use crate::kernels::signature::signature;
use crate::tensor::dtype::dispatch;
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::elementwise::{Map, run};
use crate::tensor::number::Ordered;

signature! {
    maximum(out, lhs, rhs)[] in ORDERED;
    minimum(out, lhs, rhs)[] in ORDERED;
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

/// `aten::maximum`: the maximum; NaN if either is NaN.
pub fn maximum(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in ORDERED, T => run::<T, T, _, 2>(launch, Maximum))
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

/// `aten::minimum`: the minimum; NaN if either is NaN.
pub fn minimum(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in ORDERED, T => run::<T, T, _, 2>(launch, Minimum))
}
