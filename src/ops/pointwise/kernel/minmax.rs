//! Minimum and maximum of two numbers: `maximum`, `minimum`, `fmax`, `fmin`. Operands [out, lhs, rhs].

#![forbid(unsafe_code)]

use super::functions;
use crate::tensor::Ordered;

functions! {
    /// `aten::fmax`: the maximum; if one is NaN, the other one.
    fmax, Fmax, ORDERED, Ordered, [], |[lhs, rhs]| if lhs >= rhs || rhs.is_nan() { lhs } else { rhs };
    /// `aten::fmin`: the minimum; if one is NaN, the other one.
    fmin, Fmin, ORDERED, Ordered, [], |[lhs, rhs]| if lhs <= rhs || rhs.is_nan() { lhs } else { rhs };
    /// `aten::maximum`: the maximum; NaN if either is NaN.
    maximum, Maximum, ORDERED, Ordered in Acc, [], |[lhs, rhs]| lhs.maximum(rhs);
    /// `aten::minimum`: the minimum; NaN if either is NaN.
    minimum, Minimum, ORDERED, Ordered in Acc, [], |[lhs, rhs]| lhs.minimum(rhs);
}
