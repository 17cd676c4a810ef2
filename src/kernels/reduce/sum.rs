//! `sum`, `nansum` and `mean`. Operands: [out, input].

#![forbid(unsafe_code)]

use crate::kernels::signature::signature;
use crate::tensor::dtype::{DType, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::reduction::fold::{self, Fold};
use crate::tensor::number::{Field, Hub, Number};

signature! {
    sum(out, input)[] in REAL | BOOL | FIELD;
    nansum(out, input)[] in FLOATING;
    mean(out, input)[] in FIELD;
}

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

/// `aten::sum`. Integers wrap; Bool: whether any is true.
///
/// # Errors
/// A dtype outside the table's.
pub fn sum(launch: &Launch<'_>) -> Result<(), Error> {
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
pub fn nansum(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in FLOATING, T => fold::run::<T, T, _>(launch, NanSum))
}

/// `aten::mean`.
///
/// # Errors
/// A dtype outside the table's.
pub fn mean(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in FIELD, T => fold::run::<T, T, _>(launch, Mean))
}
