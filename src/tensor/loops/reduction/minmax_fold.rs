//! [`MinMax`]: the fold to the maximum or minimum.

#![forbid(unsafe_code)]

use super::fold::Fold;
use crate::tensor::Ordered;
use crate::tensor::inlined::inlined;

/// Folds to the maximum or minimum, or to NaN if any value is NaN.
#[derive(Clone, Copy)]
pub struct MinMax<const GREATEST: bool>;

impl<V: Ordered, const GREATEST: bool> Fold<V> for MinMax<GREATEST> {
    type State = V;
    type Output = V;
    const IDEMPOTENT: bool = true;

    inlined! {
        fn start(self, first: V) -> V = first;
        fn lift(self, value: V) -> V = value;
        fn finish(self, chosen: V, _: usize) -> V = chosen;
    }

    #[inline(always)]
    fn merge(self, left: V, right: V) -> V {
        let is_left = if GREATEST { left > right } else { left < right };
        let chosen = if is_left { left } else { right };
        // The sum, instead of the NaN itself: a lane that keeps its value would be compiled to a masked store, for which later
        // loads wait long.
        if left.is_nan() | right.is_nan() { left.add(right) } else { chosen }
    }

    #[inline(always)]
    fn lift_four(self, [first, second, third, fourth]: [V; 4]) -> V {
        let further = |left: V, right: V| if GREATEST == (left > right) { left } else { right };
        let chosen = further(further(first, second), further(third, fourth));
        // A single comparison tests two values for NaN, and their sum is NaN if either is.
        let low = if first.is_nan() | second.is_nan() { first.add(second) } else { chosen };
        if third.is_nan() | fourth.is_nan() { third.add(fourth) } else { low }
    }
}
