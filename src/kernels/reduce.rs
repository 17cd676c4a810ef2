//! Reductions to one value per output. Operands: [out, input], both of the input's sizes; out has stride 0 in the dimensions that are
//! reduced. The input is cast to the compute dtype, which is out's, and folded in that dtype's opmath.

#![forbid(unsafe_code)]

use crate::tensor::dtype::{Bool, dispatch};
use crate::tensor::launch::Launch;
use crate::tensor::loops::reduce::{self, Fold};
use crate::tensor::number::{Field, Number, Ordered};

#[derive(Clone, Copy)]
struct Sum;

impl<T: Number> Fold<T> for Sum {
    #[inline(always)]
    fn start(self, _: T) -> T {
        T::ZERO
    }

    #[inline(always)]
    fn merge(self, left: T, right: T) -> T {
        left.add(right)
    }
}

#[derive(Clone, Copy)]
struct Mean;

impl<T: Field> Fold<T> for Mean {
    #[inline(always)]
    fn start(self, _: T) -> T {
        T::ZERO
    }

    #[inline(always)]
    fn merge(self, left: T, right: T) -> T {
        left.add(right)
    }

    #[inline(always)]
    fn finish(self, folded: T, count: usize) -> T {
        folded.div(T::from_i64(count as i64))
    }
}

#[derive(Clone, Copy)]
struct Prod;

impl<T: Number> Fold<T> for Prod {
    #[inline(always)]
    fn start(self, _: T) -> T {
        T::ONE
    }

    #[inline(always)]
    fn merge(self, left: T, right: T) -> T {
        left.mul(right)
    }
}

#[derive(Clone, Copy)]
struct Amax;

impl<T: Ordered> Fold<T> for Amax {
    #[inline(always)]
    fn start(self, first: T) -> T {
        first
    }

    #[inline(always)]
    fn merge(self, left: T, right: T) -> T {
        left.maximum(right)
    }
}

#[derive(Clone, Copy)]
struct Amin;

impl<T: Ordered> Fold<T> for Amin {
    #[inline(always)]
    fn start(self, first: T) -> T {
        first
    }

    #[inline(always)]
    fn merge(self, left: T, right: T) -> T {
        left.minimum(right)
    }
}

/// `aten::sum`. Integers wrap; Bool: whether any is true.
///
/// # Errors
/// A dtype outside the table's.
pub fn sum(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL | WIDE_COMPLEX, T => reduce::run::<T, _>(launch, Sum))
}

/// `aten::mean`.
///
/// # Errors
/// A dtype outside the table's.
pub fn mean(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in FIELD, T => reduce::run::<T, _>(launch, Mean))
}

/// `aten::prod`. Integers wrap; Bool: whether all are true.
///
/// # Errors
/// A dtype outside the table's.
pub fn prod(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL | WIDE_COMPLEX, T => reduce::run::<T, _>(launch, Prod))
}

/// `aten::amax`: the greatest value; NaN if there is one.
///
/// # Errors
/// A dtype outside the table's.
pub fn amax(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL, T => reduce::run::<T, _>(launch, Amax))
}

/// `aten::amin`: the least value; NaN if there is one.
///
/// # Errors
/// A dtype outside the table's.
pub fn amin(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL, T => reduce::run::<T, _>(launch, Amin))
}

/// `aten::any`: whether any value is not 0, as Bool or as Byte 0 or 1.
///
/// # Errors
/// An output of another dtype.
pub fn any(launch: &Launch<'_>) -> Result<(), String> {
    reduce::run::<Bool, _>(launch, Amax)
}

/// `aten::all`: whether no value is 0, as Bool or as Byte 0 or 1.
///
/// # Errors
/// An output of another dtype.
pub fn all(launch: &Launch<'_>) -> Result<(), String> {
    reduce::run::<Bool, _>(launch, Amin)
}

#[cfg(test)]
mod tests;
