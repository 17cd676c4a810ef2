//! Reductions given as a function of two values: [`Fold`], run over a launch by [`run`].

use std::marker::PhantomData;

use super::{BlockFold, FoldBlock, Targets, drive, load};
use crate::simd::{Aligned, across, leaf};
use crate::tensor::{DType, Element, Error, Hub, Launch, Number};
use crate::tuning::reductions::{ALTERNATING_BYTES, TWO_FOLDS_COLS};

/// A reduction over values of type `V`. Mark its methods `#[inline(always)]`.
pub trait Fold<V: Number>: Copy + Send + Sync {
    /// The state of a set of values.
    type State: Copy + Default + Send + Sync;
    type Output: Number;
    /// True if counting a value twice does not change the state.
    const IDEMPOTENT: bool = false;
    /// True if it takes the bits of any dtype whose elements have this size.
    const TAKES_BITS: bool = false;

    /// The initial state of a fold whose first value is `first`: the neutral state, or that of `first` if the fold is idempotent.
    fn start(self, first: V) -> Self::State;
    /// The state of one value.
    fn lift(self, value: V) -> Self::State;
    /// The state of two states' values.
    fn merge(self, left: Self::State, right: Self::State) -> Self::State;
    /// The state of four values.
    #[inline(always)]
    fn lift_four(self, [first, second, third, fourth]: [V; 4]) -> Self::State {
        let low = self.merge(self.lift(first), self.lift(second));
        self.merge(low, self.merge(self.lift(third), self.lift(fourth)))
    }
    /// The result for the state of `count` values.
    fn finish(self, state: Self::State, count: usize) -> Self::Output;
}

/// Declares folds: the type with its fields, their names in the expressions (`as`), the types of values, states and results, the
/// neutral state, the state of a value, the merge of two states, and the result from a state and the number of its values.
macro_rules! fold {
    ($(
        $(#[$doc:meta])*
        $name:ident $(($field:ty) as $this:ident)?: [$($generics:tt)*] $value:ty => $state:ty => $output:ty,
        $start:expr, |$lifted:ident| $lift:expr, |$left:ident, $right:ident| $merge:expr, |$merged:ident, $count:pat_param| $finish:expr;
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        struct $name $(($field))?;

        impl<$($generics)*> $crate::tensor::loops::reduction::fold::Fold<$value> for $name {
            type State = $state;
            type Output = $output;

            #[inline(always)]
            fn start(self, _: $value) -> $state {
                $start
            }

            #[inline(always)]
            fn lift(self, $lifted: $value) -> $state {
                $(let Self($this) = self;)?
                $lift
            }

            #[inline(always)]
            fn merge(self, $left: $state, $right: $state) -> $state {
                $merge
            }

            #[inline(always)]
            fn finish(self, $merged: $state, $count: usize) -> $output {
                $(let Self($this) = self;)?
                $finish
            }
        }
    )*};
}
pub(crate) use fold;

/// Folds the launch's input, cast to `E` unless the fold takes bits, into its output, whose dtype is `O`'s (or Byte, where `O` is
/// Bool).
#[inline]
pub fn run<E: Element, O: Element, F: Fold<E::Acc>>(launch: &Launch<'_>, fold: F) -> Result<(), Error> {
    check::<O>(launch, 1)?;
    drive::<F::State>(launch, &Folding::<E, O, F> { fold, types: PhantomData })
}

/// Folds the launch's input, cast to `E`, into its two outputs of that dtype: `finish` computes both results from the two states.
#[inline]
pub fn run_both<E, F, G, P>(launch: &Launch<'_>, first: F, second: G, finish: P) -> Result<(), Error>
where
    E: Element,
    F: Fold<E::Acc>,
    G: Fold<E::Acc>,
    P: Fn(F::State, G::State) -> [E::Acc; 2] + Sync,
{
    check::<E>(launch, 2)?;
    drive::<(F::State, G::State)>(launch, &Both::<E, F, G, P> { first, second, finish, element: PhantomData })
}

/// True if no dimension is reduced: each output depends on one element.
pub fn is_identity(launch: &Launch<'_>) -> bool {
    let output = launch.view(0);
    output.sizes().iter().zip(output.strides()).all(|(&size, &stride)| size == 1 || stride != 0)
}

fn check<O: Element>(launch: &Launch<'_>, outputs: usize) -> Result<(), Error> {
    if launch.num_outputs() != outputs {
        return Err(Error::new(format!("{} outputs where {outputs} are needed", launch.num_outputs())));
    }
    for output in (0..outputs).map(|index| launch.view(index).dtype()) {
        if output != O::DTYPE && !(O::DTYPE == DType::Bool && output == DType::Byte) {
            return Err(Error::new(format!("cannot reduce to {output:?}")));
        }
    }
    Ok(())
}

/// Computes the states of a block's columns for two folds.
#[inline]
fn fold_block<E: Element, F: Fold<E::Acc>, G: Fold<E::Acc>>(
    folds: (F, G),
    block: &FoldBlock,
    states: (&mut [F::State], &mut [G::State]),
) {
    if !block.by_runs {
        fold_rows::<E, F, G>(*block, folds, states);
    } else if is_short(block) {
        fold_runs::<E, F, G, FEW_LANES>(*block, folds, states);
    } else {
        fold_runs::<E, F, G, LANES>(*block, folds, states);
    }
}

/// A fold without a state, as the second one of a single fold.
#[derive(Clone, Copy)]
struct Nothing;

impl<V: Number> Fold<V> for Nothing {
    type State = ();
    type Output = V;
    const IDEMPOTENT: bool = true;

    #[inline(always)]
    fn start(self, _: V) {}

    #[inline(always)]
    fn lift(self, _: V) {}

    #[inline(always)]
    fn merge(self, (): (), (): ()) {}

    #[inline(always)]
    fn finish(self, (): (), _: usize) -> V {
        V::ZERO
    }
}

struct Folding<E, O, F> {
    fold: F,
    types: PhantomData<fn(E) -> O>,
}

impl<E: Element, O: Element, F: Fold<E::Acc>> BlockFold<F::State> for Folding<E, O, F> {
    #[inline]
    fn element(&self) -> DType {
        E::DTYPE
    }

    #[inline]
    fn takes_bits(&self) -> bool {
        F::TAKES_BITS
    }

    #[inline]
    fn looks_twice(&self) -> bool {
        false
    }

    #[inline]
    fn fold(&self, block: &FoldBlock, states: &mut [F::State]) {
        // A vector of a zero-sized type does not allocate.
        let mut nothing = vec![(); states.len()];
        fold_block::<E, F, Nothing>((self.fold, Nothing), block, (states, &mut nothing));
    }

    #[inline]
    fn merge(&self, states: &mut [F::State], later: &[F::State]) {
        merge_states::<E, F>(states, later, self.fold);
    }

    #[inline]
    fn finish(&self, states: &[F::State], count: usize, targets: &Targets) {
        for (col, &state) in states.iter().enumerate() {
            targets.write(0, col, O::store(self.fold.finish(state, count).hub().to()));
        }
    }
}

/// Two folds, whose states are separate during a block: pairs of states would be interleaved in the vector lanes.
struct Both<E, F, G, P> {
    first: F,
    second: G,
    finish: P,
    element: PhantomData<fn() -> E>,
}

impl<E, F, G, P> BlockFold<(F::State, G::State)> for Both<E, F, G, P>
where
    E: Element,
    F: Fold<E::Acc>,
    G: Fold<E::Acc>,
    P: Fn(F::State, G::State) -> [E::Acc; 2] + Sync,
{
    #[inline]
    fn element(&self) -> DType {
        E::DTYPE
    }

    #[inline]
    fn looks_twice(&self) -> bool {
        false
    }

    #[inline]
    fn fold(&self, block: &FoldBlock, states: &mut [(F::State, G::State)]) {
        if let [(first, second)] = states {
            let states = (std::slice::from_mut(first), std::slice::from_mut(second));
            return fold_block::<E, F, G>((self.first, self.second), block, states);
        }
        let (mut firsts, mut seconds) = ([F::State::default(); TWO_FOLDS_COLS], [G::State::default(); TWO_FOLDS_COLS]);
        for (part, states) in states.chunks_mut(TWO_FOLDS_COLS).enumerate() {
            let cols = states.len();
            let block = FoldBlock { data: block.col(part * TWO_FOLDS_COLS), cols, ..*block };
            fold_block::<E, F, G>((self.first, self.second), &block, (&mut firsts[..cols], &mut seconds[..cols]));
            for (state, found) in states.iter_mut().zip(firsts.into_iter().zip(seconds)) {
                *state = found;
            }
        }
    }

    #[inline]
    fn merge(&self, states: &mut [(F::State, G::State)], later: &[(F::State, G::State)]) {
        for (state, &(first, second)) in states.iter_mut().zip(later) {
            *state = (self.first.merge(state.0, first), self.second.merge(state.1, second));
        }
    }

    #[inline]
    fn finish(&self, states: &[(F::State, G::State)], _: usize, targets: &Targets) {
        for (col, &(first, second)) in states.iter().enumerate() {
            for (output, result) in (self.finish)(first, second).into_iter().enumerate() {
                targets.write(output, col, E::store(result));
            }
        }
    }
}

leaf! {
    fn merge_states<E: Element, F: Fold<E::Acc>>(states: &mut [F::State], later: &[F::State], fold: F) {
        for (state, &later) in states.iter_mut().zip(later) {
            *state = fold.merge(*state, later);
        }
    }
}

/// Lanes of a run, and of a short one.
const LANES: usize = 32;
const FEW_LANES: usize = 8;

#[inline(always)]
fn is_short(block: &FoldBlock) -> bool {
    block.rows < 2 * LANES
}

/// The state of a block's column. Must be called within a [`Leaf`](crate::simd::Leaf).
#[inline(always)]
pub fn fold_column<E: Element, F: Fold<E::Acc>>(fold: F, block: &FoldBlock, col: usize) -> F::State {
    let (data, rows) = (block.col(col), block.rows);
    let (state, ()) = if is_short(block) {
        fold_lanes::<E, F, Nothing, FEW_LANES>((fold, Nothing), data, rows)
    } else {
        fold_lanes::<E, F, Nothing, LANES>((fold, Nothing), data, rows)
    };
    state
}

leaf! {
    /// Folds each column of a block by itself, in `N` lanes.
    fn fold_runs<E: Element, F: Fold<E::Acc>, G: Fold<E::Acc>; N: usize>(
        block: FoldBlock,
        folds: (F, G),
        states: (&mut [F::State], &mut [G::State]),
    ) {
        let (states, others) = states;
        for (col, (state, other)) in states.iter_mut().zip(others).enumerate() {
            (*state, *other) = fold_lanes::<E, F, G, N>(folds, block.col(col), block.rows);
        }
    }
}

#[inline(always)]
fn fold_lanes<E: Element, F: Fold<E::Acc>, G: Fold<E::Acc>, const N: usize>(
    (fold, other): (F, G),
    data: *const u8,
    count: usize,
) -> (F::State, G::State) {
    let value = |position: usize| load::<E>(data, position);
    let Aligned(lanes) = &mut Aligned([fold.start(value(0)); N]);
    let Aligned(others) = &mut Aligned([other.start(value(0)); N]);
    let (fours, whole) = (count / (4 * N) * (4 * N), count / N * N);
    // A lane takes four values at a time: two, and two that are further on. The two halves of a long run are read alternately: two
    // streams of loads hide more of the memory's latency. A shorter run is read in order, in which the processor prefetches.
    let is_halved = count * size_of::<E>() >= ALTERNATING_BYTES;
    let (stride, apart) = if is_halved { (2 * N, fours / 2) } else { (4 * N, 2 * N) };
    for first in (0..fours / (4 * N) * stride).step_by(stride) {
        for lane in 0..N {
            let at = first + lane;
            let four = [value(at), value(at + N), value(apart + at), value(apart + at + N)];
            lanes[lane] = fold.merge(lanes[lane], fold.lift_four(four));
            others[lane] = other.merge(others[lane], other.lift_four(four));
        }
    }
    // The rest uses copies of the lanes. It indexes lanes one by one, which forces them into memory, while the lanes above stay in
    // registers.
    let (mut lanes, mut others) = (*lanes, *others);
    let mut add = |lane: usize, position: usize| {
        let value = value(position);
        lanes[lane] = fold.merge(lanes[lane], fold.lift(value));
        others[lane] = other.merge(others[lane], other.lift(value));
    };
    for first in (fours..whole).step_by(N) {
        for lane in 0..N {
            add(lane, first + lane);
        }
    }
    if F::IDEMPOTENT && G::IDEMPOTENT && count > N && whole < count {
        for lane in 0..N {
            add(lane, count - N + lane);
        }
    } else {
        for lane in 0..count - whole {
            add(lane, whole + lane);
        }
    }
    (across(lanes, |left, right| fold.merge(left, right)), across(others, |left, right| other.merge(left, right)))
}

leaf! {
    /// Folds a block row by row.
    /// Takes four rows at a time.
    fn fold_rows<E: Element, F: Fold<E::Acc>, G: Fold<E::Acc>>(
        block: FoldBlock,
        folds: (F, G),
        states: (&mut [F::State], &mut [G::State]),
    ) {
        let ((fold, other), (states, others)) = (folds, states);
        let rows = block.rows;
        for (col, (state, second)) in states.iter_mut().zip(&mut *others).enumerate() {
            let value = load::<E>(block.data, col);
            (*state, *second) = (fold.start(value), other.start(value));
        }
        for row in (0..rows / 4 * 4).step_by(4) {
            for (col, (state, second)) in states.iter_mut().zip(&mut *others).enumerate() {
                let at = |next: usize| load::<E>(block.row(row + next), col);
                let four = [at(0), at(1), at(2), at(3)];
                *state = fold.merge(*state, fold.lift_four(four));
                *second = other.merge(*second, other.lift_four(four));
            }
        }
        for row in rows / 4 * 4..rows {
            let data = block.row(row);
            for (col, (state, second)) in states.iter_mut().zip(&mut *others).enumerate() {
                let value = load::<E>(data, col);
                *state = fold.merge(*state, fold.lift(value));
                *second = other.merge(*second, other.lift(value));
            }
        }
    }
}
