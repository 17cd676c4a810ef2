//! The greatest and the least value.

#![forbid(unsafe_code)]

use crate::tensor::dtype::dispatch;
use crate::tensor::launch::Launch;
use crate::tensor::loops::reduce::fold::{self, Fold};
use crate::tensor::number::Ordered;

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
        let is_left = if GREATEST { left > right } else { left < right };
        let chosen = if is_left { left } else { right };
        // A sum, not the NaN itself: where a lane keeps its value the compiler would not write it, and waits for such a store are long.
        if left.is_nan() | right.is_nan() { left.add(right) } else { chosen }
    }

    #[inline(always)]
    fn lift_four(self, [first, second, third, fourth]: [V; 4]) -> V {
        let further = |left: V, right: V| if GREATEST == (left > right) { left } else { right };
        let extreme = further(further(first, second), further(third, fourth));
        // One comparison shows whether either of two is NaN, which their sum is then too.
        let low = if first.is_nan() | second.is_nan() { first.add(second) } else { extreme };
        if third.is_nan() | fourth.is_nan() { third.add(fourth) } else { low }
    }

    #[inline(always)]
    fn finish(self, extreme: V, _: usize) -> V {
        extreme
    }
}

/// The least and the greatest of some values. Where one was NaN, `greatest` is, and `least` may be anything.
#[derive(Clone, Copy, Default)]
struct Range<V> {
    least: V,
    greatest: V,
}

/// Both limits.
#[derive(Clone, Copy)]
struct Limits;

impl Limits {
    const GREATEST: Limit<true> = Limit;
}

#[inline(always)]
fn lesser<V: Ordered>(left: V, right: V) -> V {
    if left < right { left } else { right }
}

impl<V: Ordered> Fold<V> for Limits {
    type State = Range<V>;
    type Output = V;
    const IDEMPOTENT: bool = true;

    #[inline(always)]
    fn start(self, first: V) -> Range<V> {
        self.lift(first)
    }

    #[inline(always)]
    fn lift(self, value: V) -> Range<V> {
        Range { least: value, greatest: value }
    }

    #[inline(always)]
    fn merge(self, left: Range<V>, right: Range<V>) -> Range<V> {
        Range { least: lesser(left.least, right.least), greatest: Self::GREATEST.merge(left.greatest, right.greatest) }
    }

    #[inline(always)]
    fn lift_four(self, values: [V; 4]) -> Range<V> {
        let [first, second, third, fourth] = values;
        Range { least: lesser(lesser(first, second), lesser(third, fourth)), greatest: Self::GREATEST.lift_four(values) }
    }

    #[inline(always)]
    fn finish(self, range: Range<V>, _: usize) -> V {
        if range.greatest.is_nan() { range.greatest } else { range.least }
    }

    #[inline(always)]
    fn finish_second(self, range: Range<V>, _: usize) -> V {
        range.greatest
    }
}

/// `aten::amax`: the greatest value; NaN if there is one. Operands [out, input].
///
/// # Errors
/// A dtype outside the table's.
pub fn amax(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL, T => fold::run::<T, T, _>(launch, Limit::<true>))
}

/// `aten::amin`: the least value; NaN if there is one. Operands [out, input].
///
/// # Errors
/// A dtype outside the table's.
pub fn amin(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL, T => fold::run::<T, T, _>(launch, Limit::<false>))
}

/// `aten::aminmax`: the least and the greatest value; NaN if there is one. Operands [least, greatest, input].
///
/// # Errors
/// A dtype outside the table's.
pub fn aminmax(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL, T => fold::run::<T, T, _>(launch, Limits))
}
