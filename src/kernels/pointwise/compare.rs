//! Comparisons. The result is Bool; operands are compared in the compute dtype. NaN is unequal to everything.

#![forbid(unsafe_code)]

use crate::kernels::signature::signature;
use crate::tensor::dtype::Bool;
use crate::tensor::loops::elementwise::{Map, run_with_number};
use crate::tensor::number::{Number, Ordered};

signature! {
    /// `aten::eq`: lhs == rhs.
    eq(out; lhs, rhs)[] in EVERY => |launch, T| run_with_number::<T, Bool, _>(launch, Equal::<false>);
    /// `aten::ne`: lhs != rhs.
    ne(out; lhs, rhs)[] in EVERY => |launch, T| run_with_number::<T, Bool, _>(launch, Equal::<true>);
    /// `aten::lt`: lhs < rhs.
    lt(out; lhs, rhs)[] in ORDERED => |launch, T| run_with_number::<T, Bool, _>(launch, Less::<false, false>);
    /// `aten::le`: lhs <= rhs.
    le(out; lhs, rhs)[] in ORDERED => |launch, T| run_with_number::<T, Bool, _>(launch, Less::<false, true>);
    /// `aten::gt`: lhs > rhs.
    gt(out; lhs, rhs)[] in ORDERED => |launch, T| run_with_number::<T, Bool, _>(launch, Less::<true, false>);
    /// `aten::ge`: lhs >= rhs.
    ge(out; lhs, rhs)[] in ORDERED => |launch, T| run_with_number::<T, Bool, _>(launch, Less::<true, true>);
}

/// lhs == rhs, or lhs != rhs if `NOT`.
#[derive(Clone, Copy)]
struct Equal<const NOT: bool>;

impl<T: Number, const NOT: bool> Map<T, 2> for Equal<NOT> {
    type Output = Bool;

    #[inline(always)]
    fn apply(self, [lhs, rhs]: [T; 2]) -> Bool {
        Bool::from((lhs == rhs) != NOT)
    }
}

/// lhs < rhs, or lhs <= rhs if `OR_EQUAL`; `SWAP` exchanges the operands.
#[derive(Clone, Copy)]
struct Less<const SWAP: bool, const OR_EQUAL: bool>;

impl<T: Ordered, const SWAP: bool, const OR_EQUAL: bool> Map<T, 2> for Less<SWAP, OR_EQUAL> {
    type Output = Bool;

    #[inline(always)]
    fn apply(self, [lhs, rhs]: [T; 2]) -> Bool {
        let (lhs, rhs) = if SWAP { (rhs, lhs) } else { (lhs, rhs) };
        Bool::from(if OR_EQUAL { lhs <= rhs } else { lhs < rhs })
    }
}
