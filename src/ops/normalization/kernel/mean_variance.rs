//! Mean and sum of squared deviations of pieces that fit the first-level cache.
//!
//! Values are summed in lanes of their computing type as deviations from one of them, so that a common offset costs no precision. A
//! second pass over the piece sums the squared deviations from the mean and the deviations themselves, whose sum corrects both
//! results (Chan, Golub and LeVeque, "Algorithms for Computing the Sample Variance", 1983). Pieces are merged in `f64`, in their
//! order, so that the bits do not depend on the threads.

use crate::tensor::prelude::*;
use crate::tuning::caches::CONVERTED_RUN;
use crate::tuning::sharing::MEAN_VARIANCE_PIECE;

/// Values that are summed in separate lanes: `LANES` in long pieces, `SHORT` in short ones.
const LANES: usize = 32;
const SHORT: usize = 8;

/// A mean and the sum of the squared deviations from it, or two sums.
pub type Pair = [f64; 2];

#[inline(always)]
pub fn wide<T: Number>(value: T) -> f64 {
    value.hub().to()
}

/// `value`, or 0 if it is not finite: the origin of deviations.
#[inline(always)]
pub fn origin<T: Number>(value: T) -> T {
    if value.sub(value) == T::ZERO { value } else { T::ZERO }
}

/// The mean and the sum of squared deviations, corrected from a provisional mean, the sum of the deviations from it (`rest`) and
/// the sum of their squares.
#[inline(always)]
pub fn corrected<T: Number>(mean: T, rest: T, squares: T, count: f64) -> Pair {
    let shift = wide(rest) / count;
    let is_finite = mean.sub(mean) == T::ZERO;
    let squares = wide(squares);
    // If the squares are infinite, the correction may be infinite as well, and their difference NaN.
    let squares = if squares == f64::INFINITY { squares } else { squares - wide(rest) * shift };
    [if is_finite { wide(mean) + shift } else { wide(mean) }, squares]
}

#[inline(always)]
fn add<T: Number, const W: usize, const O: usize>(sums: &mut [[T; W]; O], lane: usize, found: [T; O]) {
    for (sums, found) in sums.iter_mut().zip(found) {
        sums[lane] = sums[lane].add(found);
    }
}

#[inline(always)]
fn both<T: Number, const O: usize>(left: [T; O], right: [T; O]) -> [T; O] {
    std::array::from_fn(|output| left[output].add(right[output]))
}

/// The sums of a function's results over the elements of a piece. Must be called within a [`Leaf`](crate::simd::Leaf).
#[inline(always)]
pub fn sums<E, const I: usize, const O: usize>(inputs: [&[E]; I], function: impl Fn([E::Acc; I]) -> [E::Acc; O]) -> [E::Acc; O]
where
    E: Element<Acc: Number>,
{
    if const { !E::IS_CONVERTED_IN_RUNS } {
        return sums_of(inputs, function);
    }
    let Aligned(runs) = &mut Aligned([[E::Acc::ZERO; CONVERTED_RUN]; I]);
    let (len, mut total) = (inputs[0].len(), [E::Acc::ZERO; O]);
    for begin in (0..len).step_by(CONVERTED_RUN) {
        let count = CONVERTED_RUN.min(len - begin);
        for (run, input) in runs.iter_mut().zip(inputs) {
            E::load_run(&input[begin..begin + count], run);
        }
        let found = sums_of(std::array::from_fn(|input| &runs[input][..count]), &function);
        for (total, found) in total.iter_mut().zip(found) {
            *total = total.add(found);
        }
    }
    total
}

/// [`sums`] for elements that are converted one by one.
#[inline(always)]
fn sums_of<E, const I: usize, const O: usize>(inputs: [&[E]; I], function: impl Fn([E::Acc; I]) -> [E::Acc; O]) -> [E::Acc; O]
where
    E: Element<Acc: Number>,
{
    let mut total = [E::Acc::ZERO; O];
    let long = inputs.map(|input| input.as_chunks::<LANES>());
    if !long[0].0.is_empty() {
        let Aligned(sums) = &mut Aligned([[E::Acc::ZERO; LANES]; O]);
        let (chunks, at) =
            (long[0].0.len(), |chunk: usize, lane: usize| function(long.map(|(chunks, _)| chunks[chunk][lane].load())));
        let fours = chunks / 4 * 4;
        // Four elements of a lane at a time: one by one, the compiler would keep the lanes in scalar registers.
        for chunk in (0..fours).step_by(4) {
            for lane in 0..LANES {
                let [first, second, third, fourth] = [0, 1, 2, 3].map(|next| at(chunk + next, lane));
                add(sums, lane, both(both(first, second), both(third, fourth)));
            }
        }
        for chunk in fours..chunks {
            for lane in 0..LANES {
                add(sums, lane, at(chunk, lane));
            }
        }
        total = sums.map(|lanes| across(lanes, Number::add));
    }
    let short = long.map(|(_, rest)| rest.as_chunks::<SHORT>());
    if !short[0].0.is_empty() {
        let Aligned(sums) = &mut Aligned([[E::Acc::ZERO; SHORT]; O]);
        for chunk in 0..short[0].0.len() {
            for lane in 0..SHORT {
                add(sums, lane, function(short.map(|(chunks, _)| chunks[chunk][lane].load())));
            }
        }
        for (total, sum) in total.iter_mut().zip(sums.map(|lanes| across(lanes, Number::add))) {
            *total = total.add(sum);
        }
    }
    for position in 0..short[0].1.len() {
        let found = function(short.map(|(_, rest)| rest[position].load()));
        for (total, found) in total.iter_mut().zip(found) {
            *total = total.add(found);
        }
    }
    total
}

/// The moments of values in `f64`, for values whose sums or squares overflow the computing type.
#[cold]
pub fn in_double<'a, E: Element + 'a>(values: impl Iterator<Item = &'a E> + Clone) -> Pair {
    let values = values.map(|element| wide(element.load()));
    let mean = values.clone().sum::<f64>() / values.clone().count() as f64;
    [mean, values.map(|value| (value - mean).powi(2)).sum()]
}

/// The moments of a piece, which must not be empty. Must be called within a [`Leaf`](crate::simd::Leaf).
#[inline(always)]
pub fn of_piece<E: Element<Acc: Real>>(values: &[E]) -> Pair {
    let first = origin(values[0].load());
    let [sum] = sums([values], |[x]| [x.sub(first)]);
    let mean = first.add(sum.div(E::Acc::from_i64(values.len() as i64)));
    let [rest, squares] = sums([values], |[x]| [x.sub(mean), x.sub(mean).mul(x.sub(mean))]);
    let found = corrected(mean, rest, squares, values.len() as f64);
    if found[1].is_finite() { found } else { in_double(values.iter()) }
}

/// The moments of any number of values, computed by pieces. Must be called within a [`Leaf`](crate::simd::Leaf).
#[inline(always)]
pub fn of_row<E: Element<Acc: Real>>(values: &[E]) -> Pair {
    let (piece, rest) = values.split_at(values.len().min(MEAN_VARIANCE_PIECE));
    let ([mut mean, mut squares], mut count) = (of_piece(piece), piece.len() as f64);
    for piece in rest.chunks(MEAN_VARIANCE_PIECE) {
        let ([own, own_squares], len) = (of_piece(piece), piece.len() as f64);
        let (apart, share) = (own - mean, len / (count + len));
        mean += apart * share;
        squares += own_squares + apart * apart * share * count;
        count += len;
    }
    [mean, squares]
}
