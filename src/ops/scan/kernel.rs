//! Scans along a dimension. Operands: [out, input], of the same sizes; scalars [dim]. The input is cast to the compute dtype, which
//! is out's.
//!
//! Sums and products are accumulated in a wider type than the elements'. A line is scanned in groups: each group is scanned
//! separately, then the total of the groups before it is added. A long line of a sum is divided into blocks, which run in parallel
//! from the totals of the blocks before them. `logcumsumexp` works in blocks too: sums of exponentials relative to a common bound,
//! then logarithms. Groups and blocks depend on the length alone, except for the choice of the bound.

use std::marker::PhantomData;

use crate::simd::math;
use crate::tensor::loops::lines::{self, Columns, LANES, Lines, Strip};
use crate::tensor::loops::{block_results, each_part};
use crate::tensor::prelude::*;
use crate::tuning::sharing::{DIVIDED_SCAN, GRAIN};

signature! {
    /// `aten::cumsum`. Integers wrap.
    cumsum(out; input)[dim] in INTEGRAL | FIELD => |launch| {
        match launch.compute() {
            DType::Half | DType::BFloat16 | DType::Float => run::<f32, f64, Add>(launch),
            DType::Double => run::<f64, f64, Add>(launch),
            DType::ComplexFloat => run::<Complex32, Complex64, Add>(launch),
            DType::ComplexDouble => run::<Complex64, Complex64, Add>(launch),
            dtype => dispatch!(dtype in INTEGRAL, T => run::<T, T, Add>(launch)),
        }
    };
    /// `aten::cumprod`. Integers wrap.
    cumprod(out; input)[dim] in INTEGRAL | FIELD => |launch| {
        match launch.compute() {
            DType::Half | DType::BFloat16 | DType::Float => run::<f32, f64, Multiply<true>>(launch),
            DType::Double => run::<f64, f64, Multiply<false>>(launch),
            DType::ComplexFloat => run::<Complex32, Complex64, Multiply<false>>(launch),
            DType::ComplexDouble => run::<Complex64, Complex64, Multiply<false>>(launch),
            dtype => dispatch!(dtype in INTEGRAL, T => run::<T, T, Multiply<false>>(launch)),
        }
    };
    /// `aten::_logcumsumexp`: the logarithms of the cumulative sums of exponentials.
    logcumsumexp(out; input)[dim] in FIELD => |launch| {
        match launch.compute() {
            DType::Double => run_logarithms::<f64>(launch),
            DType::ComplexFloat => run::<Complex32, Complex64, LogAddExp>(launch),
            DType::ComplexDouble => run::<Complex64, Complex64, LogAddExp>(launch),
            _ => run_logarithms::<f32>(launch),
        }
    };
    /// `aten::_cummax_helper`: the running maxima, and the last index of each.
    cummax(values, indices; input)[dim] in REAL | BOOL => |launch| extremes::<true>(launch);
    /// `aten::_cummin_helper`: the running minima, and the last index of each.
    cummin(values, indices; input)[dim] in REAL | BOOL => |launch| extremes::<false>(launch);
}

/// Elements of a group, which is scanned before the total of the elements before it is added.
const GROUP: usize = 4;

/// The accumulation of a scan, over values of type `W`.
trait Step<W>: Copy + Sync {
    const START: W;
    /// True if groups of [`GROUP`] elements may be accumulated separately.
    const GROUPS: bool;
    /// True if blocks of many elements may be accumulated separately.
    const BLOCKS: bool = false;
    fn step(left: W, right: W) -> W;
}

#[derive(Clone, Copy)]
struct Add;

impl<W: Number> Step<W> for Add {
    const START: W = W::ZERO;
    const GROUPS: bool = true;
    const BLOCKS: bool = true;

    #[inline(always)]
    fn step(left: W, right: W) -> W {
        left.add(right)
    }
}

/// The product of a part may overflow where that of the whole does not. With `NARROW` the elements are so much narrower than `W`
/// that the product of [`GROUP`] of them does not.
#[derive(Clone, Copy)]
struct Multiply<const NARROW: bool>;

impl<W: Number, const NARROW: bool> Step<W> for Multiply<NARROW> {
    const START: W = W::ONE;
    const GROUPS: bool = NARROW;

    #[inline(always)]
    fn step(left: W, right: W) -> W {
        left.mul(right)
    }
}

/// ln(e^left + e^right).
#[derive(Clone, Copy)]
struct LogAddExp;

impl Step<f64> for LogAddExp {
    const START: f64 = f64::NEG_INFINITY;
    const GROUPS: bool = false;

    #[inline(always)]
    fn step(left: f64, right: f64) -> f64 {
        let (high, low) = if left > right { (left, right) } else { (right, left) };
        let sum = high + math::f64::log1p_of_finite(math::f64::exp(low - high));
        // For equal infinities the difference is NaN.
        if low == high { high + std::f64::consts::LN_2 } else { sum }
    }
}

impl Step<Complex64> for LogAddExp {
    const START: Complex64 = Complex64::new(f64::NEG_INFINITY, 0.0);
    const GROUPS: bool = false;

    fn step(left: Complex64, right: Complex64) -> Complex64 {
        math::complex::logaddexp(left, right)
    }
}

fn run_logarithms<T: Element<Acc = T> + Number>(launch: &Launch<'_>) -> Result<(), Error> {
    let logcumsumexp::Operands { out, input } = logcumsumexp::Operands::of(launch)?;
    lines::run_either::<T, 1, 1>([input], [out], dim(launch)?, launch.cost(), &Logarithms)
}

/// The dimension of a launch, for all kernels of this file.
fn dim(launch: &Launch<'_>) -> Result<usize, Error> {
    cumsum::Scalars::of(launch)?.dim.count()
}

fn run<T: Element<Acc = T> + Number, W: Number, S: Step<W>>(launch: &Launch<'_>) -> Result<(), Error> {
    let (cumsum::Operands { out: output, input }, dim, cost) = (cumsum::Operands::of(launch)?, dim(launch)?, launch.cost());
    if S::BLOCKS
        && let Some((columns, input)) = narrow::<T>(&output, input, dim)
    {
        let output = output.into_elements()?;
        match columns {
            2 => scan_rows::<T, W, S, 2>(input, output, cost),
            3 => scan_rows::<T, W, S, 3>(input, output, cost),
            _ => scan_rows::<T, W, S, 4>(input, output, cost),
        }
        return Ok(());
    }
    let scan = Scan::<W, S> { cost, step: PhantomData };
    lines::run_either::<T, 1, 1>([input], [output], dim, cost, &scan)
}

/// The number of columns and the elements of the input, if the operands are contiguous and there are 2 to 4 columns and many rows
/// to scan down.
fn narrow<'a, T: Element>(output: &View<'_>, input: View<'a>, dim: usize) -> Option<(usize, &'a [T])> {
    let columns = input.sizes().get(dim + 1..)?.iter().product::<i64>() as usize;
    let is_one = input.sizes()[..dim].iter().all(|&size| size == 1);
    let is_plain = is_one && input.dtype() == T::DTYPE && output.dtype() == T::DTYPE;
    if !is_plain || !(2..=4).contains(&columns) || input.numel() < DIVIDED_SCAN || input.overlaps(output) {
        return None;
    }
    if !output.is_contiguous() || !(output.data() as usize).is_multiple_of(align_of::<T>()) {
        return None;
    }
    Some((columns, input.elements().ok()?))
}

/// A scan, with the nanoseconds of one thread for an element.
struct Scan<W, S> {
    cost: f64,
    step: PhantomData<fn(W) -> S>,
}

impl<T: Number, W: Number, S: Step<W>> Lines<T, 1, 1> for Scan<W, S> {
    #[inline(always)]
    fn line(&self, _: usize, [input]: [&[T]; 1], [output]: [&mut [T]; 1]) {
        if S::BLOCKS && input.len() >= DIVIDED_SCAN {
            scan_blocks::<T, W, S>(input, output, self.cost);
        } else {
            scan::<T, W, S>(input, output, S::START);
        }
    }
}

impl<T: Number, W: Number, S: Step<W>> Columns<T, 1, 1> for Scan<W, S> {
    #[inline(always)]
    fn columns(&self, strip: Strip<T, 1, 1>) {
        scan_columns::<T, W, S>(strip);
    }
}

#[inline(always)]
fn scan_columns<T: Number, W: Number, S: Step<W>>(mut strip: Strip<T, 1, 1>) {
    let Aligned(totals) = &mut Aligned([S::START; LANES]);
    for row in strip.rows() {
        let ([input], output) = strip.row(row);
        for lane in 0..LANES {
            totals[lane] = S::step(totals[lane], input[lane].hub().to());
            output[lane] = totals[lane].hub().to();
        }
    }
}

/// Scans a part of a line, starting from the total `before`, and returns the new total.
#[inline(always)]
fn scan<T: Number, W: Number, S: Step<W>>(input: &[T], output: &mut [T], before: W) -> W {
    let mut total = before;
    let wide = |value: T| -> W { value.hub().to() };
    let (groups, rest) = if S::GROUPS { input.as_chunks::<GROUP>() } else { (&[][..], input) };
    let (whole, tail) = output.split_at_mut(groups.len() * GROUP);
    for (group, output) in groups.iter().zip(whole.as_chunks_mut::<GROUP>().0) {
        let mut own = [W::ZERO; GROUP];
        own[0] = wide(group[0]);
        for position in 1..GROUP {
            own[position] = S::step(own[position - 1], wide(group[position]));
        }
        for (output, own) in output.iter_mut().zip(own) {
            *output = S::step(total, own).hub().to();
        }
        total = S::step(total, own[GROUP - 1]);
    }
    for (&value, output) in rest.iter().zip(tail) {
        total = S::step(total, wide(value));
        *output = total.hub().to();
    }
    total
}

/// Cumulative log-sum-exp.
struct Logarithms;

/// Elements whose exponentials are summed relative to a common bound.
const BLOCK: usize = 64;

impl<T: Element<Acc = T> + Number> Lines<T, 1, 1> for Logarithms {
    #[inline(always)]
    fn line(&self, _: usize, [input]: [&[T]; 1], [output]: [&mut [T]; 1]) {
        let mut before = f64::NEG_INFINITY;
        let (blocks, rest) = input.as_chunks::<BLOCK>();
        let (whole, tail) = output.split_at_mut(blocks.len() * BLOCK);
        for (block, output) in blocks.iter().zip(whole.as_chunks_mut::<BLOCK>().0) {
            before = log_block(block, output, before);
        }
        scan::<T, f64, LogAddExp>(rest, tail, before);
    }
}

impl<T: Element<Acc = T> + Number> Columns<T, 1, 1> for Logarithms {
    #[inline(always)]
    fn columns(&self, strip: Strip<T, 1, 1>) {
        scan_columns::<T, f64, LogAddExp>(strip);
    }
}

/// Scans a block starting from the total `before`, and returns the new total. If the least result is far below the bound, or an
/// element is NaN or infinite, elements are scanned one by one.
#[inline(always)]
fn log_block<T: Element + Number>(input: &[T; BLOCK], output: &mut [T; BLOCK], before: f64) -> f64 {
    // The absolute error of the logarithm of a sum grows with its distance from the bound: doubles have no spare precision.
    let reach = if T::DTYPE == DType::Double { 2.0 } else { 64.0 };
    let wide = input.map(|value| -> f64 { value.hub().to() });
    let (mut bound, mut is_usual) = (before, before < f64::INFINITY);
    for value in wide {
        bound = if value > bound { value } else { bound };
        is_usual &= value < f64::INFINITY;
    }
    let least = if before > wide[0] { before } else { wide[0] };
    if !is_usual || bound - least > reach || least == f64::NEG_INFINITY {
        return scan::<T, f64, LogAddExp>(input, output, before);
    }
    let powers = wide.map(|value| math::f64::exp(value - bound));
    let mut sums = [0.0; BLOCK];
    scan::<f64, f64, Add>(&powers, &mut sums, math::f64::exp(before - bound));
    let results = sums.map(|sum| bound + math::f64::log(sum));
    *output = results.map(|result| result.hub().to());
    results[BLOCK - 1]
}

fn total<T: Number, W: Number, S: Step<W>>(input: &[T]) -> W {
    let mut lanes = [S::START; 8];
    let (groups, rest) = input.as_chunks::<8>();
    for group in groups {
        for (lane, value) in lanes.iter_mut().zip(group) {
            *lane = S::step(*lane, value.hub().to());
        }
    }
    let whole = lanes.into_iter().fold(S::START, S::step);
    rest.iter().fold(whole, |total, value| S::step(total, value.hub().to()))
}

/// Scans a long line in parallel blocks.
fn scan_blocks<T: Number, W: Number, S: Step<W>>(input: &[T], output: &mut [T], cost: f64) {
    let scan = |input: &[T], output: &mut [T], before| {
        scan::<T, W, S>(input, output, before);
    };
    in_blocks(input, output, GRAIN, cost, (S::START, S::step), &total::<T, W, S>, &scan);
}

/// Scans a contiguous matrix of `C` columns down its rows, in parallel blocks of rows.
fn scan_rows<T: Number, W: Number, S: Step<W>, const C: usize>(input: &[T], output: &mut [T], cost: f64) {
    let wide = |row: &[T; C]| row.map(|value| -> W { value.hub().to() });
    let step = |left: [W; C], right: [W; C]| std::array::from_fn(|column| S::step(left[column], right[column]));
    let total = |rows: &[[T; C]]| rows.iter().fold([S::START; C], |total, row| step(total, wide(row)));
    let scan = |rows: &[[T; C]], output: &mut [[T; C]], before| {
        let mut total: [W; C] = before;
        for (row, output) in rows.iter().zip(output) {
            total = step(total, wide(row));
            *output = total.map(|value| value.hub().to());
        }
    };
    let (rows, output) = (input.as_chunks::<C>().0, output.as_chunks_mut::<C>().0);
    in_blocks(rows, output, GRAIN / C, cost * C as f64, ([S::START; C], step), &total, &scan);
}

/// Scans `input` in parallel blocks of `len` elements of `cost` nanoseconds: first the total of each block, then each block from
/// the totals before it.
fn in_blocks<T: Send + Sync, W: Copy + Send + Sync>(
    input: &[T],
    output: &mut [T],
    len: usize,
    cost: f64,
    (start, step): (W, impl Fn(W, W) -> W),
    total: &(impl Fn(&[T]) -> W + Sync),
    scan: &(impl Fn(&[T], &mut [T], W) + Sync),
) {
    let inputs: Vec<&[T]> = input.chunks(len).collect();
    let mut before = block_results(inputs.len(), cost * len as f64 / 2.0, &|number| total(inputs[number]));
    let mut sum = start;
    for total in &mut before {
        (*total, sum) = (sum, step(sum, *total));
    }
    each_part(output, len, cost, &|first, output| scan(inputs[first / len], output, before[first / len]));
}

fn extremes<const GREATEST: bool>(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL, T => {
        type V = <T as Element>::Acc;
        let cummax::Operands { values, indices, input } = cummax::Operands::of(launch)?;
        lines::run_with_indices::<V>(input, values, indices, dim(launch)?, launch.cost(), &|input, values, indices| {
            follow::<V, GREATEST>(input, values, indices);
        })
    })
}

/// NaN counts as the extreme value; like an equal value, a later NaN replaces an earlier one.
fn follow<V: Ordered, const GREATEST: bool>(input: &[V], values: &mut [V], indices: &mut [i64]) {
    let (mut best, mut position) = (input[0], 0);
    for (at, ((&value, out), out_position)) in input.iter().zip(values).zip(indices).enumerate() {
        let beyond = if GREATEST { value >= best } else { value <= best };
        let better = (beyond & !best.is_nan()) | value.is_nan();
        best = if better { value } else { best };
        position = if better { at as i64 } else { position };
        (*out, *out_position) = (best, position);
    }
}
