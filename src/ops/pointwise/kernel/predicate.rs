//! Predicates (`isnan`, `isposinf`, `isneginf`) and logic. The result is Bool, cast to the output's dtype; a number is true if it
//! is not 0.

use super::maps;
use crate::tensor::loops::elementwise::{Map, run};
use crate::tensor::{Bool, Error, FLOATING, Launch, Number, Ordered, dispatch, signature};

signature! {
    logical_and(out; lhs, rhs)[] in ALL => |launch, T| run::<T, Bool, _, 2>(launch, And);
    logical_or(out; lhs, rhs)[] in ALL => |launch, T| run::<T, Bool, _, 2>(launch, Or);
    logical_xor(out; lhs, rhs)[] in ALL => |launch, T| run::<T, Bool, _, 2>(launch, Xor);
    logical_not(out; x)[] in ALL => |launch, T| run::<T, Bool, _, 1>(launch, Not);
    /// `aten::isnan`: true for a complex number if either part is NaN.
    isnan(out; x)[] in EVERY => |launch, T| run::<T, Bool, _, 1>(launch, Nan);
    isposinf(out; x)[] in ORDERED => |launch| infinite(launch, Highest);
    isneginf(out; x)[] in ORDERED => |launch| infinite(launch, Lowest);
}

maps! {
    And, Number => Bool, |[lhs, rhs]| ((lhs != T::ZERO) && (rhs != T::ZERO)).into();
    Or, Number => Bool, |[lhs, rhs]| ((lhs != T::ZERO) || (rhs != T::ZERO)).into();
    Xor, Number => Bool, |[lhs, rhs]| ((lhs != T::ZERO) != (rhs != T::ZERO)).into();
    Not, Number => Bool, |[x]| (x == T::ZERO).into();
    Nan, Number => Bool, |[x]| (!x.eq(&x)).into();
    Highest, Ordered => Bool, |[x]| (x == T::HIGHEST).into();
    Lowest, Ordered => Bool, |[x]| (x == T::LOWEST).into();
    Never, Ordered => Bool, |[_x]| false.into();
}

/// Integers are never infinite.
fn infinite<M: Map<f32, 1, Output = Bool> + Map<f64, 1, Output = Bool>>(launch: &Launch<'_>, map: M) -> Result<(), Error> {
    let dtype = launch.compute();
    if FLOATING.contains(dtype) {
        return dispatch!(dtype in FLOATING, T => run::<T, Bool, _, 1>(launch, map));
    }
    dispatch!(dtype in INTEGRAL | UNSIGNED | BOOL, T => run::<T, Bool, _, 1>(launch, Never))
}
