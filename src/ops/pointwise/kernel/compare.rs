//! Comparisons. The result is Bool; operands are compared in the compute dtype. NaN is unequal to everything.

#![forbid(unsafe_code)]

use super::maps;
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
