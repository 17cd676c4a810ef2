//! Reductions given as a function of two values: [`Fold`], run over a launch by [`run`].

use std::marker::PhantomData;

use super::{Block, Blocks, Targets, drive, load};
use crate::simd::{Aligned, Leaf, vectorize};
use crate::tensor::dtype::{DType, Element};
use crate::tensor::launch::Launch;
use crate::tensor::number::{Hub, Number};

/// A reduction over values of type `V`. Its methods are to be marked `#[inline(always)]`.
pub trait Fold<V: Number>: Copy + Send + Sync {
    /// What is known of some values.
    type State: Copy + Default + Send + Sync;
    /// The result.
    type Output: Number;
    /// Whether a value may be seen twice.
    const IDEMPOTENT: bool = false;

    /// What a fold that comes to see `first` starts from: the neutral state, or that of `first` where a value may be seen twice.
    fn start(self, first: V) -> Self::State;
    /// The state of one value.
    fn lift(self, value: V) -> Self::State;
    /// The state of both.
    fn merge(self, left: Self::State, right: Self::State) -> Self::State;
    /// The state of four values.
    #[inline(always)]
    fn lift_four(self, [first, second, third, fourth]: [V; 4]) -> Self::State {
        let low = self.merge(self.lift(first), self.lift(second));
        self.merge(low, self.merge(self.lift(third), self.lift(fourth)))
    }
    /// The result for the state of `count` values.
    fn finish(self, state: Self::State, count: usize) -> Self::Output;
    /// The second result, of a fold that has two outputs.
    #[inline(always)]
    fn finish_second(self, state: Self::State, count: usize) -> Self::Output {
        self.finish(state, count)
    }
}

/// Folds the launch's input, cast to `E`, into its outputs, whose dtype is `O`'s (or Byte, where `O` is Bool).
///
/// # Errors
/// The wrong operands.
#[inline]
pub fn run<E: Element, O: Element, F: Fold<E::Acc>>(launch: &Launch<'_>, fold: F) -> Result<(), String> {
    let outputs = launch.num_outputs();
    for output in (0..outputs).map(|index| launch.view(index).dtype()) {
        if output != O::DTYPE && !(O::DTYPE == DType::Bool && output == DType::Byte) {
            return Err(format!("cannot reduce to {output:?}"));
        }
    }
    drive::<F::State>(launch, &Folding::<E, O, F> { fold, outputs, types: PhantomData })
}

struct Folding<E, O, F> {
    fold: F,
    outputs: usize,
    types: PhantomData<fn(E) -> O>,
}

impl<E: Element, O: Element, F: Fold<E::Acc>> Blocks<F::State> for Folding<E, O, F> {
    #[inline]
    fn element(&self) -> DType {
        E::DTYPE
    }

    #[inline]
    fn fold(&self, block: &Block, states: &mut [F::State]) {
        if block.by_runs {
            vectorize(Runs::<E, F> { block: *block, states, fold: self.fold });
        } else {
            vectorize(Rows::<E, F> { block: *block, states, fold: self.fold });
        }
    }

    #[inline]
    fn merge(&self, states: &mut [F::State], later: &[F::State]) {
        vectorize(Merge::<E, F> { states, later, fold: self.fold, element: PhantomData });
    }

    #[inline]
    fn finish(&self, states: &[F::State], count: usize, targets: &Targets) {
        for (col, &state) in states.iter().enumerate() {
            targets.write(0, col, O::store(self.fold.finish(state, count).hub().to()));
            if self.outputs > 1 {
                targets.write(1, col, O::store(self.fold.finish_second(state, count).hub().to()));
            }
        }
    }
}

struct Merge<'a, E: Element, F: Fold<E::Acc>> {
    states: &'a mut [F::State],
    later: &'a [F::State],
    fold: F,
    element: PhantomData<E>,
}

impl<E: Element, F: Fold<E::Acc>> Leaf for Merge<'_, E, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (state, &later) in self.states.iter_mut().zip(self.later) {
            *state = self.fold.merge(*state, later);
        }
    }
}

/// Folds each column of a block by itself.
struct Runs<'a, E: Element, F: Fold<E::Acc>> {
    block: Block,
    states: &'a mut [F::State],
    fold: F,
}

/// Lanes of a long run, and of one that is short or strided.
const LANES: usize = 32;
const FEW_LANES: usize = 8;

impl<E: Element, F: Fold<E::Acc>> Runs<'_, E, F> {
    #[inline(always)]
    fn lanes<const N: usize>(&self, data: *const u8, step: isize) -> F::State {
        let (fold, count) = (self.fold, self.block.rows);
        let value = |place: usize| load::<E>(data, place as isize * step);
        let state = |place: usize| fold.lift(value(place));
        let Aligned(lanes) = &mut Aligned([fold.start(load::<E>(data, 0)); N]);
        let (fours, whole) = (count / (4 * N) * (4 * N), count / N * N);
        // Lanes are loaded and stored, with all the waiting, once for four values.
        for first in (0..fours).step_by(4 * N) {
            for (lane, folded) in lanes.iter_mut().enumerate() {
                let at = first + lane;
                let four = fold.lift_four([value(at), value(at + N), value(at + 2 * N), value(at + 3 * N)]);
                *folded = fold.merge(*folded, four);
            }
        }
        for first in (fours..whole).step_by(N) {
            for (lane, folded) in lanes.iter_mut().enumerate() {
                *folded = fold.merge(*folded, state(first + lane));
            }
        }
        if F::IDEMPOTENT && count > N && whole < count {
            for (lane, folded) in lanes.iter_mut().enumerate() {
                *folded = fold.merge(*folded, state(count - N + lane));
            }
        } else {
            for (lane, folded) in lanes.iter_mut().enumerate().take(count - whole) {
                *folded = fold.merge(*folded, state(whole + lane));
            }
        }
        let mut half = N / 2;
        while half > 0 {
            for lane in 0..half {
                lanes[lane] = fold.merge(lanes[lane], lanes[lane + half]);
            }
            half /= 2;
        }
        lanes[0]
    }
}

impl<E: Element, F: Fold<E::Acc>> Leaf for Runs<'_, E, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let size = size_of::<E>() as isize;
        let is_long = self.block.is_dense::<E>() && self.block.rows >= 2 * LANES;
        for col in 0..self.block.cols {
            let data = self.block.col(col);
            self.states[col] =
                if is_long { self.lanes::<LANES>(data, size) } else { self.lanes::<FEW_LANES>(data, self.block.row_step) };
        }
    }
}

/// Folds a block row by row.
struct Rows<'a, E: Element, F: Fold<E::Acc>> {
    block: Block,
    states: &'a mut [F::State],
    fold: F,
}

impl<E: Element, F: Fold<E::Acc>> Rows<'_, E, F> {
    /// Rows whose elements lie side by side, four at a time.
    #[inline(always)]
    fn dense(self) {
        let (fold, rows, step) = (self.fold, self.block.rows, size_of::<E>() as isize);
        let first = self.block.data;
        for (col, state) in self.states.iter_mut().enumerate() {
            *state = fold.start(load::<E>(first, col as isize * step));
        }
        for row in (0..rows / 4 * 4).step_by(4) {
            let data = self.block.row(row);
            for (col, state) in self.states.iter_mut().enumerate() {
                let at = |next: isize| load::<E>(data, next * self.block.row_step + col as isize * step);
                *state = fold.merge(*state, fold.lift_four([at(0), at(1), at(2), at(3)]));
            }
        }
        for row in rows / 4 * 4..rows {
            let data = self.block.row(row);
            for (col, state) in self.states.iter_mut().enumerate() {
                *state = fold.merge(*state, fold.lift(load::<E>(data, col as isize * step)));
            }
        }
    }

    #[inline(always)]
    fn strided(self) {
        let (fold, step) = (self.fold, self.block.col_step);
        for (col, state) in self.states.iter_mut().enumerate() {
            let value = |row: usize| load::<E>(self.block.row(row), col as isize * step);
            *state = fold.start(value(0));
            for row in 0..self.block.rows {
                *state = fold.merge(*state, fold.lift(value(row)));
            }
        }
    }
}

impl<E: Element, F: Fold<E::Acc>> Leaf for Rows<'_, E, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        if self.block.is_dense::<E>() { self.dense() } else { self.strided() }
    }
}
