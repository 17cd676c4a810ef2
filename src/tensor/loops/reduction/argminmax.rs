//! Argmax and argmin: the maximum or minimum of each output and its first index. NaN counts as the maximum and the minimum, as in
//! PyTorch.

use std::marker::PhantomData;

use super::fold::{Fold, fold_column};
use super::minmax_fold::MinMax;
use super::{BlockFold, FoldBlock, Targets, drive, load};
use crate::simd::{Aligned, leaf};
use crate::tensor::{DType, Element, Error, Launch, Number, Ordered};
use crate::tuning::reductions::ARGMINMAX_COLS;

/// Finds the maxima or minima of the launch's input, cast to `E`, along the only reduced dimension. Outputs: [indices], of dtype
/// Long, or [values, indices].
#[inline]
pub fn run<E: Element<Acc: Ordered>, const GREATEST: bool>(launch: &Launch<'_>) -> Result<(), Error> {
    let outputs = launch.num_outputs();
    if launch.view(outputs - 1).dtype() != DType::Long || outputs == 2 && launch.view(0).dtype() != E::DTYPE {
        return Err(Error::new("outputs of the wrong dtypes"));
    }
    drive::<ArgMinMax<E::Acc>>(launch, &ArgMinMaxFold::<E, GREATEST> { with_value: outputs == 2, element: PhantomData })
}

/// An element and its index in the reduced dimension.
#[derive(Clone, Copy, Default)]
struct ArgMinMax<V> {
    value: V,
    position: i64,
}

/// True if a later value replaces an earlier one.
#[inline(always)]
fn beats<V: Ordered, const GREATEST: bool>(later: V, earlier: V) -> bool {
    let beyond = if GREATEST { later > earlier } else { later < earlier };
    (beyond | later.is_nan()) & !earlier.is_nan()
}

struct ArgMinMaxFold<E, const GREATEST: bool> {
    with_value: bool,
    element: PhantomData<fn() -> E>,
}

impl<E: Element<Acc: Ordered>, const GREATEST: bool> BlockFold<ArgMinMax<E::Acc>> for ArgMinMaxFold<E, GREATEST> {
    #[inline]
    fn element(&self) -> DType {
        E::DTYPE
    }

    #[inline]
    fn is_ordered(&self) -> bool {
        true
    }

    #[inline]
    fn fold(&self, block: &FoldBlock, states: &mut [ArgMinMax<E::Acc>]) {
        if block.by_runs {
            fold_runs::<E, GREATEST>(*block, states);
        } else {
            fold_rows::<E, GREATEST>(*block, states);
        }
    }

    #[inline]
    fn merge(&self, states: &mut [ArgMinMax<E::Acc>], later: &[ArgMinMax<E::Acc>]) {
        for (state, &later) in states.iter_mut().zip(later) {
            if beats::<E::Acc, GREATEST>(later.value, state.value) {
                *state = later;
            }
        }
    }

    #[inline]
    fn finish(&self, states: &[ArgMinMax<E::Acc>], _: usize, targets: &Targets) {
        for (col, state) in states.iter().enumerate() {
            if self.with_value {
                targets.write(0, col, E::store(state.value));
            }
            targets.write(self.with_value as usize, col, state.position);
        }
    }
}

/// Elements that are compared together.
const LANES: usize = 64;

/// The first position of a value that is known to be in a column.
#[inline(always)]
fn position<E: Element>(data: *const u8, rows: usize, is_it: impl Fn(E::Acc) -> bool) -> usize {
    let mut first = 0;
    let is_at = |position: usize| is_it(load::<E>(data, position));
    while first + LANES <= rows && !(0..LANES).fold(false, |any, lane| any | is_at(first + lane)) {
        first += LANES;
    }
    (first..rows).find(|&position| is_at(position)).unwrap_or(0)
}

leaf! {
    /// Reads each column twice: for the value, then for its first index.
    fn fold_runs<E: Element<Acc: Ordered>; GREATEST: bool>(block: FoldBlock, states: &mut [ArgMinMax<E::Acc>]) {
        for (col, state) in states.iter_mut().enumerate().take(block.cols) {
            let (data, rows, value) = (block.col(col), block.rows, fold_column::<E, _>(MinMax::<GREATEST>, &block, col));
            let position = if value.is_nan() {
                position::<E>(data, rows, E::Acc::is_nan)
            } else {
                position::<E>(data, rows, |found| found == value)
            };
            *state = ArgMinMax { value, position: (block.first + position) as i64 };
        }
    }

    fn fold_rows<E: Element<Acc: Ordered>; GREATEST: bool>(block: FoldBlock, states: &mut [ArgMinMax<E::Acc>]) {
        for begin in (0..block.cols).step_by(ARGMINMAX_COLS) {
            let cols = ARGMINMAX_COLS.min(block.cols - begin);
            let data = block.col(begin);
            let (Aligned(values), Aligned(indices)) =
                (&mut Aligned([E::Acc::ZERO; ARGMINMAX_COLS]), &mut Aligned([0i32; ARGMINMAX_COLS]));
            for (col, value) in values[..cols].iter_mut().enumerate() {
                *value = load::<E>(data, col);
            }
            for row in 1..block.rows {
                let data = data.wrapping_offset(row as isize * block.row_step);
                for (col, (value, position)) in values[..cols].iter_mut().zip(&mut indices[..cols]).enumerate() {
                    let later = load::<E>(data, col);
                    let better = beats::<E::Acc, GREATEST>(later, *value);
                    *value = MinMax::<GREATEST>.merge(later, *value);
                    // Rows come in ascending order. The update is an arithmetic maximum: for a conditional assignment the compiler
                    // would generate a masked store (AVX2), and the next load would have to wait for it. Positions are signed,
                    // because it would see through an unsigned maximum with 0.
                    *position = (*position).max(if better { row as i32 } else { 0 });
                }
            }
            for (state, (&value, &position)) in states[begin..begin + cols].iter_mut().zip(values.iter().zip(&*indices)) {
                *state = ArgMinMax { value, position: block.first as i64 + position as i64 };
            }
        }
    }
}
