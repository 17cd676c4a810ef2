//! Comparisons. The result is Bool; operands are compared in the compute dtype. NaN is unequal to everything.

#![forbid(unsafe_code)]

use crate::kernels::signature::signature;
use crate::tensor::dtype::{Bool, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::elementwise::{Map, run_with_number};
use crate::tensor::number::{Number, Ordered};

signature! {
    eq(out, lhs, rhs)[] in EVERY;
    ne(out, lhs, rhs)[] in EVERY;
    lt(out, lhs, rhs)[] in ORDERED;
    le(out, lhs, rhs)[] in ORDERED;
    gt(out, lhs, rhs)[] in ORDERED;
    ge(out, lhs, rhs)[] in ORDERED;
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

/// `aten::eq`: lhs == rhs.
pub fn eq(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in EVERY, T => run_with_number::<T, Bool, _>(launch, Equal::<false>))
}

/// `aten::ne`: lhs != rhs.
pub fn ne(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in EVERY, T => run_with_number::<T, Bool, _>(launch, Equal::<true>))
}

/// `aten::lt`: lhs < rhs.
pub fn lt(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in ORDERED, T => run_with_number::<T, Bool, _>(launch, Less::<false, false>))
}

/// `aten::le`: lhs <= rhs.
pub fn le(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in ORDERED, T => run_with_number::<T, Bool, _>(launch, Less::<false, true>))
}

/// `aten::gt`: lhs > rhs.
pub fn gt(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in ORDERED, T => run_with_number::<T, Bool, _>(launch, Less::<true, false>))
}

/// `aten::ge`: lhs >= rhs.
pub fn ge(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in ORDERED, T => run_with_number::<T, Bool, _>(launch, Less::<true, true>))
}
