//! Predicates (`isnan`, `isposinf`, `isneginf`) and logic. The result is Bool, cast to the output's dtype; a number is true if it
//! is not 0.

#![forbid(unsafe_code)]

use crate::kernels::signature::signature;
use crate::tensor::dtype::{Bool, FLOATING, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::elementwise::{Map, run};
use crate::tensor::number::{Number, Ordered};

signature! {
    /// `aten::logical_and`.
    logical_and(out; lhs, rhs)[] in ALL => |launch, T| run::<T, Bool, _, 2>(launch, And);
    /// `aten::logical_or`.
    logical_or(out; lhs, rhs)[] in ALL => |launch, T| run::<T, Bool, _, 2>(launch, Or);
    /// `aten::logical_xor`.
    logical_xor(out; lhs, rhs)[] in ALL => |launch, T| run::<T, Bool, _, 2>(launch, Xor);
    /// `aten::logical_not`.
    logical_not(out; x)[] in ALL => |launch, T| run::<T, Bool, _, 1>(launch, Not);
    /// `aten::isnan`: true for a complex number if either part is NaN.
    isnan(out; x)[] in EVERY => |launch, T| run::<T, Bool, _, 1>(launch, Nan);
    isposinf(out; x)[] in ORDERED;
    isneginf(out; x)[] in ORDERED;
}

/// Maps to Bool. `Map, Bound, |[inputs]| truth;`
macro_rules! predicates {
    ($($map:ident, $bound:ident, |[$($x:ident),+]| $body:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $map;

        impl<T: $bound> Map<T, { [$(stringify!($x)),+].len() }> for $map {
            type Output = Bool;

            #[inline(always)]
            fn apply(self, [$($x),+]: [T; { [$(stringify!($x)),+].len() }]) -> Bool {
                Bool::from($body)
            }
        }
    )*};
}

predicates! {
    And, Number, |[lhs, rhs]| (lhs != T::ZERO) && (rhs != T::ZERO);
    Or, Number, |[lhs, rhs]| (lhs != T::ZERO) || (rhs != T::ZERO);
    Xor, Number, |[lhs, rhs]| (lhs != T::ZERO) != (rhs != T::ZERO);
    Not, Number, |[x]| x == T::ZERO;
    Nan, Number, |[x]| !x.eq(&x);
    Highest, Ordered, |[x]| x == T::HIGHEST;
    Lowest, Ordered, |[x]| x == T::LOWEST;
    Never, Ordered, |[_x]| false;
}

/// `aten::isposinf`.
pub fn isposinf(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    if FLOATING.contains(dtype) {
        return dispatch!(dtype in FLOATING, T => run::<T, Bool, _, 1>(launch, Highest));
    }
    dispatch!(dtype in INTEGRAL | UNSIGNED | BOOL, T => run::<T, Bool, _, 1>(launch, Never))
}

/// `aten::isneginf`.
pub fn isneginf(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    if FLOATING.contains(dtype) {
        return dispatch!(dtype in FLOATING, T => run::<T, Bool, _, 1>(launch, Lowest));
    }
    dispatch!(dtype in INTEGRAL | UNSIGNED | BOOL, T => run::<T, Bool, _, 1>(launch, Never))
}
