//! Mean and variance. Each block is read twice, for its mean and for the squared deviations from it, which are corrected for the
//! rounding of the mean. Blocks are merged in `f64`. Source: Chan, Golub, LeVeque, "Algorithms for Computing the Sample Variance",
//! The American Statistician 37 (1983).

use std::marker::PhantomData;

use super::{BlockFold, FoldBlock, Targets, drive, load};
use crate::simd::{Aligned, across, leaf};
use crate::tensor::{DType, Element, Error, Field, Hub, Launch, Number, Real};
use crate::tuning::reductions::VARIANCE_COLS;

/// The parameters of the result.
#[derive(Clone, Copy, Debug)]
pub struct Variance {
    /// The number that is subtracted from the count of elements, by which the sum of squares is then divided.
    pub correction: f64,
    /// True if the result is the standard deviation.
    pub root: bool,
}

/// Writes the variances of the launch's input, cast to `E`, and with two outputs the means as well.
#[inline]
pub fn run<E: Element<Acc: Real>>(launch: &Launch<'_>, variance: Variance) -> Result<(), Error> {
    let outputs = launch.num_outputs();
    if (0..outputs).any(|output| launch.view(output).dtype() != E::DTYPE) {
        return Err(Error::new("outputs of the wrong dtype"));
    }
    drive::<MeanVar>(launch, &Variances::<E> { variance, with_mean: outputs == 2, element: PhantomData })
}

/// The moments of a set of values.
#[derive(Clone, Copy, Default)]
struct MeanVar {
    count: f64,
    mean: f64,
    /// The sum of squared deviations from the mean.
    squares: f64,
}

impl MeanVar {
    /// The moments of `count` values, from the sums of their deviations from `near`, a number near their mean, and of the squares
    /// of these deviations.
    #[inline(always)]
    fn of<V: Number>(count: usize, near: V, deviations: V, squares: V) -> Self {
        let wide = |value: V| -> f64 { value.hub().to() };
        let (near, deviations, squares, count) = (wide(near), wide(deviations), wide(squares), count as f64);
        let mean = if near.is_infinite() { near } else { near + deviations / count };
        Self { count, mean, squares: squares - deviations * (deviations / count) }
    }

    #[inline(always)]
    fn merge(self, other: Self) -> Self {
        let count = self.count + other.count;
        let (apart, share) = (other.mean - self.mean, other.count / count);
        Self { count, mean: self.mean + apart * share, squares: self.squares + other.squares + apart * apart * self.count * share }
    }
}

/// The moments of `rows` values in `f64`, for values whose sums or squares overflow the computing type.
#[cold]
fn in_double<E: Element>(data: *const u8, rows: usize, step: isize) -> MeanVar {
    let value = |row: usize| -> f64 { load::<E>(data.wrapping_offset(row as isize * step), 0).hub().to() };
    let mean = (0..rows).map(value).sum::<f64>() / rows as f64;
    MeanVar { count: rows as f64, mean, squares: (0..rows).map(|row| (value(row) - mean).powi(2)).sum() }
}

struct Variances<E> {
    variance: Variance,
    with_mean: bool,
    element: PhantomData<fn() -> E>,
}

impl<E: Element<Acc: Real>> BlockFold<MeanVar> for Variances<E> {
    #[inline]
    fn element(&self) -> DType {
        E::DTYPE
    }

    #[inline]
    fn fold(&self, block: &FoldBlock, states: &mut [MeanVar]) {
        if block.by_runs {
            run_variances::<E>(*block, states);
        } else {
            row_variances::<E>(*block, states);
        }
    }

    #[inline]
    fn merge(&self, states: &mut [MeanVar], later: &[MeanVar]) {
        for (state, &later) in states.iter_mut().zip(later) {
            *state = state.merge(later);
        }
    }

    #[inline]
    fn finish(&self, states: &[MeanVar], count: usize, targets: &Targets) {
        let divisor = (count as f64 - self.variance.correction).max(0.0);
        let store = |value: f64| E::store(E::Acc::from_f64(value));
        for (col, state) in states.iter().enumerate() {
            let variance = state.squares.max(0.0) / divisor;
            // `max` would drop NaN.
            let variance = if state.squares.is_nan() { f64::NAN } else { variance };
            targets.write(0, col, store(if self.variance.root { variance.sqrt() } else { variance }));
            if self.with_mean {
                targets.write(1, col, store(state.mean));
            }
        }
    }
}

const LANES: usize = 32;

/// The moments of `rows` contiguous elements.
#[inline(always)]
fn moments<E: Element<Acc: Real>>(data: *const u8, rows: usize) -> MeanVar {
    let (fours, whole) = (rows / (4 * LANES) * (4 * LANES), rows / LANES * LANES);
    let value = |position: usize| load::<E>(data, position);
    let Aligned(sums) = &mut Aligned([E::Acc::ZERO; LANES]);
    // Four elements of a lane at a time: one by one, the compiler would keep the lanes in scalar registers.
    for first in (0..fours).step_by(4 * LANES) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            let at = |next: usize| value(first + lane + next * LANES);
            *sum = sum.add(at(0).add(at(1)).add(at(2).add(at(3))));
        }
    }
    for first in (fours..whole).step_by(LANES) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            *sum = sum.add(value(first + lane));
        }
    }
    for (lane, sum) in sums.iter_mut().enumerate().take(rows - whole) {
        *sum = sum.add(value(whole + lane));
    }
    let near = across(*sums, Number::add).div(E::Acc::from_i64(rows as i64));
    let (Aligned(deviations), Aligned(squares)) = (&mut Aligned([E::Acc::ZERO; LANES]), &mut Aligned([E::Acc::ZERO; LANES]));
    let mut look = |position: usize, lane: usize| {
        let apart = value(position).sub(near);
        deviations[lane] = deviations[lane].add(apart);
        squares[lane] = squares[lane].add(apart.mul(apart));
    };
    for first in (0..whole).step_by(LANES) {
        for lane in 0..LANES {
            look(first + lane, lane);
        }
    }
    for lane in 0..rows - whole {
        look(whole + lane, lane);
    }
    let found = MeanVar::of(rows, near, across(*deviations, Number::add), across(*squares, Number::add));
    if found.squares.is_finite() { found } else { in_double::<E>(data, rows, size_of::<E>() as isize) }
}

leaf! {
    fn run_variances<E: Element<Acc: Real>>(block: FoldBlock, states: &mut [MeanVar]) {
        for (col, state) in states.iter_mut().enumerate() {
            *state = moments::<E>(block.col(col), block.rows);
        }
    }

    fn row_variances<E: Element<Acc: Real>>(block: FoldBlock, states: &mut [MeanVar]) {
        let (rows, row_step) = (block.rows, block.row_step);
        let scale = E::Acc::from_i64(rows as i64);
        for begin in (0..block.cols).step_by(VARIANCE_COLS) {
            let cols = VARIANCE_COLS.min(block.cols - begin);
            let data = block.col(begin);
            let Aligned(near) = &mut Aligned([E::Acc::ZERO; VARIANCE_COLS]);
            for row in 0..rows {
                let data = data.wrapping_offset(row as isize * row_step);
                for (col, sum) in near[..cols].iter_mut().enumerate() {
                    *sum = sum.add(load::<E>(data, col));
                }
            }
            for sum in &mut near[..cols] {
                *sum = sum.div(scale);
            }
            let (Aligned(deviations), Aligned(squares)) =
                (&mut Aligned([E::Acc::ZERO; VARIANCE_COLS]), &mut Aligned([E::Acc::ZERO; VARIANCE_COLS]));
            for row in 0..rows {
                let data = data.wrapping_offset(row as isize * row_step);
                for col in 0..cols {
                    let apart = load::<E>(data, col).sub(near[col]);
                    deviations[col] = deviations[col].add(apart);
                    squares[col] = squares[col].add(apart.mul(apart));
                }
            }
            for (col, state) in states[begin..begin + cols].iter_mut().enumerate() {
                let found = MeanVar::of(rows, near[col], deviations[col], squares[col]);
                let again = || in_double::<E>(data.cast::<E>().wrapping_add(col).cast(), rows, row_step);
                *state = if found.squares.is_finite() { found } else { again() };
            }
        }
    }
}
