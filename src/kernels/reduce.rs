//! Reductions to one value per output. Operands: [out, input], both of the input's sizes; out has stride 0 in the dimensions that are
//! reduced. The input is cast to the compute dtype, which is out's unless said otherwise, and folded in that dtype's opmath.

#![forbid(unsafe_code)]

pub mod extreme;
pub mod moment;
pub mod norm;

use crate::tensor::dtype::{Bool, Complex32, Complex64, DType, dispatch};
use crate::tensor::launch::Launch;
use crate::tensor::loops::reduce::fold::{self, Fold};
use crate::tensor::number::{Field, Hub, Number, Ordered};

/// Adds.
#[derive(Clone, Copy)]
struct Sum;

impl<V: Number> Fold<V> for Sum {
    type State = V;
    type Output = V;

    #[inline(always)]
    fn start(self, _: V) -> V {
        V::ZERO
    }

    #[inline(always)]
    fn lift(self, value: V) -> V {
        value
    }

    #[inline(always)]
    fn merge(self, left: V, right: V) -> V {
        left.add(right)
    }

    #[inline(always)]
    fn finish(self, sum: V, _: usize) -> V {
        sum
    }
}

/// Adds integers as `i64`.
#[derive(Clone, Copy)]
struct LongSum;

impl<V: Number> Fold<V> for LongSum {
    type State = i64;
    type Output = i64;

    #[inline(always)]
    fn start(self, _: V) -> i64 {
        0
    }

    #[inline(always)]
    fn lift(self, value: V) -> i64 {
        value.hub().to()
    }

    #[inline(always)]
    fn merge(self, left: i64, right: i64) -> i64 {
        left.wrapping_add(right)
    }

    #[inline(always)]
    fn finish(self, sum: i64, _: usize) -> i64 {
        sum
    }
}

/// Adds what is not NaN.
#[derive(Clone, Copy)]
struct NanSum;

impl<V: Number> Fold<V> for NanSum {
    type State = V;
    type Output = V;

    #[inline(always)]
    fn start(self, _: V) -> V {
        V::ZERO
    }

    #[inline(always)]
    #[expect(clippy::eq_op, reason = "NaN alone differs from itself")]
    fn lift(self, value: V) -> V {
        if value == value { value } else { V::ZERO }
    }

    #[inline(always)]
    fn merge(self, left: V, right: V) -> V {
        left.add(right)
    }

    #[inline(always)]
    fn finish(self, sum: V, _: usize) -> V {
        sum
    }
}

/// Counts what is not 0.
#[derive(Clone, Copy)]
struct CountNonzero;

impl<V: Number> Fold<V> for CountNonzero {
    type State = i64;
    type Output = i64;

    #[inline(always)]
    fn start(self, _: V) -> i64 {
        0
    }

    #[inline(always)]
    fn lift(self, value: V) -> i64 {
        (value != V::ZERO) as i64
    }

    #[inline(always)]
    fn merge(self, left: i64, right: i64) -> i64 {
        left + right
    }

    #[inline(always)]
    fn finish(self, count: i64, _: usize) -> i64 {
        count
    }
}

#[derive(Clone, Copy)]
struct Mean;

impl<V: Field> Fold<V> for Mean {
    type State = V;
    type Output = V;

    #[inline(always)]
    fn start(self, _: V) -> V {
        V::ZERO
    }

    #[inline(always)]
    fn lift(self, value: V) -> V {
        value
    }

    #[inline(always)]
    fn merge(self, left: V, right: V) -> V {
        left.add(right)
    }

    #[inline(always)]
    fn finish(self, sum: V, count: usize) -> V {
        sum.div(V::from_i64(count as i64))
    }
}

#[derive(Clone, Copy)]
struct Prod;

impl<V: Number> Fold<V> for Prod {
    type State = V;
    type Output = V;

    #[inline(always)]
    fn start(self, _: V) -> V {
        V::ONE
    }

    #[inline(always)]
    fn lift(self, value: V) -> V {
        value
    }

    #[inline(always)]
    fn merge(self, left: V, right: V) -> V {
        left.mul(right)
    }

    #[inline(always)]
    fn finish(self, product: V, _: usize) -> V {
        product
    }
}

/// The greatest or least value.
#[derive(Clone, Copy)]
struct Limit<const GREATEST: bool>;

impl<V: Ordered, const GREATEST: bool> Fold<V> for Limit<GREATEST> {
    type State = V;
    type Output = V;
    const IDEMPOTENT: bool = true;

    #[inline(always)]
    fn start(self, first: V) -> V {
        first
    }

    #[inline(always)]
    fn lift(self, value: V) -> V {
        value
    }

    #[inline(always)]
    fn merge(self, left: V, right: V) -> V {
        // The choice by order becomes one instruction, which takes `right` where either is NaN.
        let is_left = if GREATEST { left > right } else { left < right };
        let chosen = if is_left { left } else { right };
        if left.is_nan() { left } else { chosen }
    }

    #[inline(always)]
    fn finish(self, extreme: V, _: usize) -> V {
        extreme
    }
}

/// Whether any value is not 0 or, with `ALL`, none is.
#[derive(Clone, Copy)]
struct Truth<const ALL: bool>;

impl<V: Number, const ALL: bool> Fold<V> for Truth<ALL> {
    type State = V;
    type Output = Bool;
    const IDEMPOTENT: bool = true;

    #[inline(always)]
    fn start(self, _: V) -> V {
        if ALL { V::ONE } else { V::ZERO }
    }

    #[inline(always)]
    fn lift(self, value: V) -> V {
        value
    }

    #[inline(always)]
    fn merge(self, left: V, right: V) -> V {
        if ALL == (right != V::ZERO) { left } else { right }
    }

    #[inline(always)]
    fn finish(self, state: V, _: usize) -> Bool {
        Bool::from(state != V::ZERO)
    }
}

/// `aten::sum`. Integers wrap; Bool: whether any is true.
///
/// # Errors
/// A dtype outside the table's.
pub fn sum(launch: &Launch<'_>) -> Result<(), String> {
    let (dtype, source) = (launch.compute(), launch.view(1).dtype());
    if dtype == DType::Long && matches!(source, DType::Bool | DType::Byte | DType::Char | DType::Short | DType::Int) {
        return dispatch!(source in INTEGRAL | BOOL, T => fold::run::<T, i64, _>(launch, LongSum));
    }
    dispatch!(dtype in REAL | BOOL | WIDE_COMPLEX, T => fold::run::<T, T, _>(launch, Sum))
}

/// `aten::nansum`: the sum of what is not NaN.
///
/// # Errors
/// A dtype outside the table's.
pub fn nansum(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in FLOATING, T => fold::run::<T, T, _>(launch, NanSum))
}

/// `aten::count_nonzero`. The compute dtype is the input's, the output is Long.
///
/// # Errors
/// A dtype outside the table's.
pub fn count_nonzero(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL | WIDE_COMPLEX, T => fold::run::<T, i64, _>(launch, CountNonzero))
}

/// `aten::mean`.
///
/// # Errors
/// A dtype outside the table's.
pub fn mean(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in FIELD, T => fold::run::<T, T, _>(launch, Mean))
}

/// `aten::prod`. Integers wrap; Bool: whether all are true.
///
/// # Errors
/// A dtype outside the table's.
pub fn prod(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL | WIDE_COMPLEX, T => fold::run::<T, T, _>(launch, Prod))
}

/// `aten::amax`: the greatest value; NaN if there is one.
///
/// # Errors
/// A dtype outside the table's.
pub fn amax(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL, T => fold::run::<T, T, _>(launch, Limit::<true>))
}

/// `aten::amin`: the least value; NaN if there is one.
///
/// # Errors
/// A dtype outside the table's.
pub fn amin(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL, T => fold::run::<T, T, _>(launch, Limit::<false>))
}

/// `aten::any`: whether any value is not 0, as Bool or as Byte 0 or 1. The input is not cast.
///
/// # Errors
/// An output of another dtype.
pub fn any(launch: &Launch<'_>) -> Result<(), String> {
    truth::<false>(launch)
}

/// `aten::all`: whether no value is 0, as Bool or as Byte 0 or 1. The input is not cast.
///
/// # Errors
/// An output of another dtype.
pub fn all(launch: &Launch<'_>) -> Result<(), String> {
    truth::<true>(launch)
}

fn truth<const ALL: bool>(launch: &Launch<'_>) -> Result<(), String> {
    match launch.view(1).dtype() {
        DType::Float => fold::run::<f32, Bool, _>(launch, Truth::<ALL>),
        DType::Double => fold::run::<f64, Bool, _>(launch, Truth::<ALL>),
        DType::BFloat16 => fold::run::<half::bf16, Bool, _>(launch, Truth::<ALL>),
        DType::Half => fold::run::<half::f16, Bool, _>(launch, Truth::<ALL>),
        DType::Int => fold::run::<i32, Bool, _>(launch, Truth::<ALL>),
        DType::Long => fold::run::<i64, Bool, _>(launch, Truth::<ALL>),
        DType::ComplexFloat => fold::run::<Complex32, Bool, _>(launch, Truth::<ALL>),
        DType::ComplexDouble => fold::run::<Complex64, Bool, _>(launch, Truth::<ALL>),
        _ => fold::run::<Bool, Bool, _>(launch, Truth::<ALL>),
    }
}

#[cfg(test)]
mod tests;
