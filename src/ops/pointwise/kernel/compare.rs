//! Comparisons, whose result is Bool; operands are compared in the compute dtype, and NaN is unequal to everything. The minimum and
//! maximum of two numbers.

use super::{functions, maps};
use crate::tensor::loops::elementwise::run_with_number;
use crate::tensor::{Bool, Number, Ordered, signature};

signature! {
    /// `aten::eq`: lhs == rhs.
    eq(out; lhs, rhs)[] in EVERY => |launch, T| run_with_number::<T, Bool, _>(launch, Equal);
    /// `aten::ne`: lhs != rhs.
    ne(out; lhs, rhs)[] in EVERY => |launch, T| run_with_number::<T, Bool, _>(launch, NotEqual);
    /// `aten::lt`: lhs < rhs.
    lt(out; lhs, rhs)[] in ORDERED => |launch, T| run_with_number::<T, Bool, _>(launch, Less);
    /// `aten::le`: lhs <= rhs.
    le(out; lhs, rhs)[] in ORDERED => |launch, T| run_with_number::<T, Bool, _>(launch, LessEqual);
    /// `aten::gt`: lhs > rhs.
    gt(out; lhs, rhs)[] in ORDERED => |launch, T| run_with_number::<T, Bool, _>(launch, Greater);
    /// `aten::ge`: lhs >= rhs.
    ge(out; lhs, rhs)[] in ORDERED => |launch, T| run_with_number::<T, Bool, _>(launch, GreaterEqual);
}

maps! {
    Equal, Number => Bool, |[lhs, rhs]| (lhs == rhs).into();
    NotEqual, Number => Bool, |[lhs, rhs]| (lhs != rhs).into();
    Less, Ordered => Bool, |[lhs, rhs]| (lhs < rhs).into();
    LessEqual, Ordered => Bool, |[lhs, rhs]| (lhs <= rhs).into();
    Greater, Ordered => Bool, |[lhs, rhs]| (rhs < lhs).into();
    GreaterEqual, Ordered => Bool, |[lhs, rhs]| (rhs <= lhs).into();
}

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
