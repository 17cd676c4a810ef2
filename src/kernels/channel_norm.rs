//! Batch and group normalisation: every channel is scaled and shifted by its own statistics.
//!
//! Operands are of rows: of one channel each (planes), or with one column for each channel (channels last). Values are computed in `f32`, or
//! `f64` for Double; statistics, weights and their gradients have dtypes of their own. Sums are those of fixed blocks, added in their order,
//! so that the bits do not depend on the threads.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::simd::{Aligned, Leaf, vectorize};
use crate::tensor::dtype::{Element, dispatch};
use crate::tensor::launch::{Launch, Scalar};
use crate::tensor::loops::lines::Values;
use crate::tensor::loops::rows::{self, Row};
use crate::tensor::loops::{GRAIN, parallel};
use crate::tensor::number::{Field, Number, Real};
use crate::tensor::view::View;

/// Values that are summed side by side.
const LANES: usize = 32;
/// Rows of a block where every column is a channel.
const ROWS: usize = 256;

/// Which channel an element belongs to.
#[derive(Clone, Copy)]
struct Channels {
    count: usize,
    /// Rows that follow each other in one channel; 0 where the columns are the channels.
    span: usize,
}

/// A function of the values at one place and of numbers of its channel.
trait Channelwise<T, const P: usize, const I: usize, const O: usize>: Copy + Sync {
    /// Mark it `#[inline(always)]`.
    fn apply(self, channel: [T; P], inputs: [T; I]) -> [T; O];
}

macro_rules! channelwise {
    ($($(#[$doc:meta])* $name:ident, |[$($p:ident),*], [$($x:ident),+]| [$($y:expr),+];)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        struct $name;

        impl<T: Real> Channelwise<T, { <[&str]>::len(&[$(stringify!($p)),*]) }, { [$(stringify!($x)),+].len() }, { [$(stringify!($y)),+].len() }>
            for $name
        {
            #[inline(always)]
            fn apply(
                self,
                [$($p),*]: [T; { <[&str]>::len(&[$(stringify!($p)),*]) }],
                [$($x),+]: [T; { [$(stringify!($x)),+].len() }],
            ) -> [T; { [$(stringify!($y)),+].len() }] {
                [$($y),+]
            }
        }
    )*};
}

channelwise! {
    /// What means are made of.
    Plain, |[], [x]| [x];
    /// What variances are made of.
    Squares, |[mean], [x]| [x.sub(mean).mul(x.sub(mean))];
    /// What the gradients of statistics are made of.
    Products, |[mean], [grad, x]| [grad, grad.mul(x.sub(mean))];
    /// The result of the normalisation.
    Affine, |[scale, shift], [x]| [x.mul(scale).add(shift)];
    /// The gradient of values whose statistics were given.
    Scaled, |[scale], [grad, _x]| [grad.mul(scale)];
    /// The gradient of values that their statistics were made of.
    Centred, |[scale, mean, slope, base], [grad, x]| [grad.sub(base).sub(x.sub(mean).mul(slope)).mul(scale)];
    /// The same as a sum.
    Combined, |[scale, slope, base], [grad, x]| [grad.mul(scale).add(x.mul(slope)).add(base)];
}

/// The sums over a row of one channel.
struct RowSums<'a, E: Element, F, const P: usize, const I: usize> {
    inputs: [&'a [E]; I],
    channel: [E::Acc; P],
    function: F,
}

impl<E, F, const P: usize, const I: usize, const O: usize> Leaf for (RowSums<'_, E, F, P, I>, [(); O])
where
    E: Element<Acc: Real>,
    F: Channelwise<E::Acc, P, I, O>,
{
    type Output = [E::Acc; O];

    #[inline(always)]
    fn run(self) -> [E::Acc; O] {
        let RowSums { inputs, channel, function } = self.0;
        let parts = inputs.map(|input| input.as_chunks::<LANES>());
        let Aligned(sums) = &mut Aligned([[E::Acc::ZERO; LANES]; O]);
        for chunk in 0..parts[0].0.len() {
            for lane in 0..LANES {
                let found = function.apply(channel, parts.map(|(chunks, _)| chunks[chunk][lane].load()));
                for (sums, found) in sums.iter_mut().zip(found) {
                    sums[lane] = sums[lane].add(found);
                }
            }
        }
        for lane in 0..parts[0].1.len() {
            let found = function.apply(channel, parts.map(|(_, rest)| rest[lane].load()));
            for (sums, found) in sums.iter_mut().zip(found) {
                sums[lane] = sums[lane].add(found);
            }
        }
        sums.map(halves)
    }
}

/// The sum of all lanes, by halves.
#[inline(always)]
fn halves<T: Number>(mut lanes: [T; LANES]) -> T {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] = lanes[lane].add(lanes[lane + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// The sums over the columns of some rows, each of a channel. What is left of the columns after whole tiles comes one by one.
struct ColumnSums<'a, E: Element, F, const P: usize, const I: usize, const O: usize> {
    inputs: [&'a [E]; I],
    channels: [&'a [E::Acc]; P],
    sums: [&'a mut [E::Acc]; O],
    function: F,
}

impl<E, F, const P: usize, const I: usize, const O: usize> ColumnSums<'_, E, F, P, I, O>
where
    E: Element<Acc: Real>,
    F: Channelwise<E::Acc, P, I, O>,
{
    #[inline(always)]
    fn tile<const WIDTH: usize>(&mut self, first: usize, cols: usize) {
        let mut channels = [[E::Acc::ZERO; WIDTH]; P];
        for (tile, channel) in channels.iter_mut().zip(self.channels) {
            tile.copy_from_slice(&channel[first..first + WIDTH]);
        }
        let Aligned(sums) = &mut Aligned([[E::Acc::ZERO; WIDTH]; O]);
        for row in 0..self.inputs[0].len() / cols {
            let at = row * cols + first;
            let rows = self.inputs.map(|input| &input[at..at + WIDTH]);
            for lane in 0..WIDTH {
                let found = self.function.apply(channels.each_ref().map(|channel| channel[lane]), rows.map(|row| row[lane].load()));
                for (sums, found) in sums.iter_mut().zip(found) {
                    sums[lane] = sums[lane].add(found);
                }
            }
        }
        for (target, sums) in self.sums.iter_mut().zip(sums) {
            target[first..first + WIDTH].copy_from_slice(sums);
        }
    }
}

impl<E, F, const P: usize, const I: usize, const O: usize> Leaf for ColumnSums<'_, E, F, P, I, O>
where
    E: Element<Acc: Real>,
    F: Channelwise<E::Acc, P, I, O>,
{
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        let cols = self.sums[0].len();
        let whole = cols / LANES * LANES;
        for first in (0..whole).step_by(LANES) {
            self.tile::<LANES>(first, cols);
        }
        for first in whole..cols {
            self.tile::<1>(first, cols);
        }
    }
}

/// The results of a row of one channel, or of some rows with a column for each channel.
struct MapRow<'a, E: Element, F, const P: usize, const I: usize> {
    output: &'a mut [E],
    inputs: [&'a [E]; I],
    /// Numbers of the channels of every column, or one for the row.
    channels: [&'a [E::Acc]; P],
    function: F,
}

impl<E, F, const P: usize, const I: usize> Leaf for MapRow<'_, E, F, P, I>
where
    E: Element<Acc: Real>,
    F: Channelwise<E::Acc, P, I, 1>,
{
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (count, cols) = (self.output.len(), self.channels[0].len());
        let (output, inputs) = (self.output, self.inputs.map(|input| &input[..count]));
        if cols == 1 {
            let channel = self.channels.map(|channel| channel[0]);
            for (col, output) in output.iter_mut().enumerate() {
                *output = E::store(self.function.apply(channel, inputs.map(|input| input[col].load()))[0]);
            }
            return;
        }
        let channels = self.channels.map(|channel| &channel[..cols]);
        for (row, output) in output.chunks_exact_mut(cols).enumerate() {
            let inputs = inputs.map(|input| &input[row * cols..(row + 1) * cols]);
            for (col, output) in output.iter_mut().enumerate() {
                let channel = channels.map(|channel| channel[col]);
                *output = E::store(self.function.apply(channel, inputs.map(|input| input[col].load()))[0]);
            }
        }
    }
}

/// Some rows of operands, side by side.
fn slices<E: Element, const I: usize>(inputs: &[View<'_>; I], row: usize, rows: usize) -> Option<[&'static [E]; I]> {
    let found = inputs.map(|input| {
        let sizes = [(rows * input.size(1)) as i64];
        let data = input.data().wrapping_offset(row as isize * input.stride(0));
        let strides = [size_of::<E>() as i64];
        let flat = View::new(data, input.dtype(), input.flags(), &sizes, &strides).ok()?;
        if input.is_contiguous() { Row::of(&flat, &[]).as_slice::<E>() } else { None }
    });
    found.iter().all(Option::is_some).then(|| found.map(Option::unwrap_or_default))
}

/// The sums over every channel.
fn sums<E, F, const P: usize, const I: usize, const O: usize>(
    inputs: [View<'_>; I],
    channels: Channels,
    numbers: [&[E::Acc]; P],
    function: F,
) -> Result<[Vec<E::Acc>; O], String>
where
    E: Element<Acc: Real>,
    F: Channelwise<E::Acc, P, I, O>,
{
    let (rows, cols) = (inputs[0].size(0), inputs[0].size(1));
    let by_rows = channels.span > 0;
    let (height, width) = if by_rows { (1, 1) } else { (ROWS, cols) };
    let blocks: Vec<_> =
        (0..rows.div_ceil(height)).map(|_| Mutex::new(std::array::from_fn(|_| vec![E::Acc::ZERO; width]))).collect();
    let failed = AtomicBool::new(false);
    parallel(blocks.len(), (GRAIN / (height * cols).max(1)).max(1), 0.3 * (height * cols) as f64, &|begin, end| {
        for (block, found) in blocks.iter().enumerate().take(end).skip(begin) {
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(inputs) = slices::<E, I>(&inputs, block * height, height.min(rows - block * height)) else {
                failed.store(true, Ordering::Relaxed);
                return;
            };
            if by_rows {
                let channel = numbers.map(|numbers| numbers[block / channels.span % channels.count]);
                *found = vectorize((RowSums { inputs, channel, function }, [(); O])).map(|sum| vec![sum]);
            } else {
                let sums = found.each_mut().map(Vec::as_mut_slice);
                vectorize(ColumnSums { inputs, channels: numbers, sums, function });
            }
        }
    });
    if failed.into_inner() {
        return Err("normalisation needs dense operands".into());
    }
    let mut totals = std::array::from_fn(|_| vec![E::Acc::ZERO; channels.count]);
    for (block, found) in blocks.into_iter().enumerate() {
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (total, found) in totals.iter_mut().zip(found) {
            let first = if by_rows { block / channels.span % channels.count } else { 0 };
            for (total, found) in total[first..].iter_mut().zip(found) {
                *total = total.add(found);
            }
        }
    }
    Ok(totals)
}

/// A function over all elements.
fn map<E, F, const P: usize, const I: usize>(
    output: View<'_>,
    inputs: [View<'_>; I],
    channels: Channels,
    numbers: [&[E::Acc]; P],
    function: F,
    cost: f64,
) -> Result<(), String>
where
    E: Element<Acc: Real>,
    F: Channelwise<E::Acc, P, I, 1>,
{
    let failed = AtomicBool::new(false);
    // Short rows are taken together, so many as there is a whole number of.
    let (rows, cols) = (output.size(0), output.size(1));
    let together = if channels.span > 0 { 1 } else { 1 << rows.trailing_zeros().min(6) };
    let size = size_of::<E>() as i64;
    let (sizes, strides) = ([(rows / together) as i64, (cols * together) as i64], [(cols * together) as i64 * size, size]);
    if !output.is_contiguous() {
        return Err("normalisation needs dense operands".into());
    }
    let blocks = View::new(output.data(), output.dtype(), output.flags(), &sizes, &strides)?;
    rows::for_each(blocks, cost, &|index, row| {
        let found = slices::<E, I>(&inputs, index[0] * together, together);
        let (Some(inputs), Some(output)) = (found, row.as_slice_mut::<E>()) else {
            failed.store(true, Ordering::Relaxed);
            return;
        };
        let channels = numbers.map(|numbers| {
            let first = (index[0].checked_div(channels.span)).map(|row| row % channels.count);
            first.map_or(numbers, |first| &numbers[first..=first])
        });
        vectorize(MapRow { output, inputs, channels, function });
    });
    if failed.into_inner() { Err("normalisation needs dense operands".into()) } else { Ok(()) }
}

/// Gives operands one after the other, those that may be missing by a scalar that says whether they are there.
struct Operands<'a> {
    launch: &'a Launch<'a>,
    next: usize,
}

impl<'a> Operands<'a> {
    fn view(&mut self) -> View<'a> {
        self.next += 1;
        self.launch.view(self.next - 1)
    }

    fn flag(&self, scalar: usize) -> Result<bool, String> {
        Ok(self.launch.scalar(scalar)? == Scalar::Bool(true))
    }

    fn values<T: Element + Number>(&mut self) -> Result<Values<'a, T>, String> {
        Values::new(self.view())
    }

    fn given<T: Element + Number>(&mut self, scalar: usize) -> Result<Option<Values<'a, T>>, String> {
        if self.flag(scalar)? { self.values().map(Some) } else { Ok(None) }
    }

    /// The values of an operand, or `default` for every channel.
    fn parameter<T: Element + Number>(&mut self, scalar: usize, channels: usize, default: T) -> Result<Vec<T>, String> {
        Ok(self.given(scalar)?.map_or_else(|| vec![default; channels], |values| values.to_vec()))
    }
}

/// Means, the sums of the squared distances from them, and how many values a channel has.
type Moments<T> = (Vec<T>, Vec<T>, T);

/// The moments of every channel.
fn moments<E: Element<Acc: Real>>(input: View<'_>, channels: Channels) -> Result<Moments<E::Acc>, String> {
    let count = E::Acc::from_i64((input.numel() / channels.count) as i64);
    let [totals] = sums::<E, _, 0, 1, 1>([input], channels, [], Plain)?;
    let means: Vec<_> = totals.into_iter().map(|total| total.div(count)).collect();
    let [squares] = sums::<E, _, 1, 1, 1>([input], channels, [&means], Squares)?;
    Ok((means, squares, count))
}

/// 1 / sqrt(variance + eps).
fn inverse<T: Real>(variance: T, eps: T) -> T {
    T::ONE.div(variance.add(eps).sqrt())
}

/// `aten::native_batch_norm`. Operands [out, save mean?, save invstd?, running mean?, running var?, x, weight?, bias?]; out and x are rows of
/// one channel each, or have a column for each channel; scalars [channels, whether they are columns, whether statistics are those of x, which
/// are then saved, whether there are running ones, a weight, a bias, momentum, eps].
///
/// # Errors
/// The wrong operands.
pub fn native_batch_norm(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in FLOATING, E => batch_norm::<E>(launch))
}

fn channels_of(launch: &Launch<'_>) -> Result<Channels, String> {
    let by_columns = launch.scalar(1)? == Scalar::Bool(true);
    Ok(Channels { count: launch.scalar(0)?.to::<i64>() as usize, span: !by_columns as usize })
}

fn batch_norm<E: Element<Acc: Real>>(launch: &Launch<'_>) -> Result<(), String> {
    let channels = channels_of(launch)?;
    let (momentum, eps): (E::Acc, E::Acc) = (launch.scalar(6)?.to(), launch.scalar(7)?.to());
    let mut operands = Operands { launch, next: 0 };
    let output = operands.view();
    let (save_mean, save_inverse) = (operands.given::<E::Acc>(2)?, operands.given::<E::Acc>(2)?);
    let (running_mean, running_var) = (operands.given::<E::Acc>(3)?, operands.given::<E::Acc>(3)?);
    let input = operands.view();
    let weight = operands.parameter(4, channels.count, E::Acc::ONE)?;
    let bias = operands.parameter(5, channels.count, E::Acc::ZERO)?;
    let (means, inverses) = if let (Some(save_mean), Some(save_inverse)) = (save_mean, save_inverse) {
        let (means, squares, count) = moments::<E>(input, channels)?;
        let inverses: Vec<_> = squares.iter().map(|square| inverse(square.div(count), eps)).collect();
        for channel in 0..channels.count {
            save_mean.set(channel, means[channel]);
            save_inverse.set(channel, inverses[channel]);
            let unbiased = squares[channel].div(count.sub(E::Acc::ONE));
            for (running, value) in [(&running_mean, means[channel]), (&running_var, unbiased)] {
                if let Some(running) = running {
                    let kept = running.get(channel).mul(E::Acc::ONE.sub(momentum));
                    running.set(channel, value.mul(momentum).add(kept));
                }
            }
        }
        (means, inverses)
    } else {
        let (Some(mean), Some(var)) = (running_mean, running_var) else { return Err("there are no statistics".into()) };
        (mean.to_vec(), var.to_vec().into_iter().map(|var| inverse(var, eps)).collect())
    };
    let scales: Vec<_> = inverses.iter().zip(&weight).map(|(inverse, &weight)| inverse.mul(weight)).collect();
    let shifts: Vec<_> = (0..channels.count).map(|channel| bias[channel].sub(means[channel].mul(scales[channel]))).collect();
    map::<E, _, 2, 1>(output, [input], channels, [&scales, &shifts], Affine, launch.cost())
}

/// `aten::native_batch_norm_backward`. Operands [grad of x, grad of weight?, grad of bias?, grad, x, mean, invstd or variance, weight?]; scalars
/// [channels, whether they are columns, whether statistics are those of x, whether there is a grad of weight, of bias, a weight, eps]. Given
/// statistics have a variance.
///
/// # Errors
/// The wrong operands.
pub fn native_batch_norm_backward(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in FLOATING, E => batch_norm_backward::<E>(launch))
}

fn batch_norm_backward<E: Element<Acc: Real>>(launch: &Launch<'_>) -> Result<(), String> {
    let channels = channels_of(launch)?;
    let mut operands = Operands { launch, next: 0 };
    let (is_own, output) = (operands.flag(2)?, operands.view());
    let (weight_grad, bias_grad) = (operands.given::<E::Acc>(3)?, operands.given::<E::Acc>(4)?);
    let (grad, input) = (operands.view(), operands.view());
    let means = operands.values::<E::Acc>()?.to_vec();
    let mut inverses = operands.values::<E::Acc>()?.to_vec();
    if !is_own {
        let eps: E::Acc = launch.scalar(6)?.to();
        for value in &mut inverses {
            *value = inverse(*value, eps);
        }
    }
    let weight = operands.parameter(5, channels.count, E::Acc::ONE)?;
    let scales: Vec<_> = inverses.iter().zip(&weight).map(|(inverse, &weight)| inverse.mul(weight)).collect();
    let [plain, products] = sums::<E, _, 1, 2, 2>([grad, input], channels, [&means], Products)?;
    for channel in 0..channels.count {
        if let Some(weight_grad) = &weight_grad {
            weight_grad.set(channel, products[channel].mul(inverses[channel]));
        }
        if let Some(bias_grad) = &bias_grad {
            bias_grad.set(channel, plain[channel]);
        }
    }
    if !is_own {
        return map::<E, _, 1, 2>(output, [grad, input], channels, [&scales], Scaled, launch.cost());
    }
    let count = E::Acc::from_i64((input.numel() / channels.count) as i64);
    let bases: Vec<_> = plain.iter().map(|sum| sum.div(count)).collect();
    let slopes: Vec<_> = products.iter().zip(&inverses).map(|(sum, &inverse)| sum.div(count).mul(inverse).mul(inverse)).collect();
    map::<E, _, 4, 2>(output, [grad, input], channels, [&scales, &means, &slopes, &bases], Centred, launch.cost())
}

/// `aten::native_group_norm`. Operands [out, mean, rstd, x, weight?, bias?]; out and x have a row for every sample and channel; scalars
/// [channels, groups, whether there is a weight, a bias, eps].
///
/// # Errors
/// The wrong operands.
pub fn native_group_norm(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in FLOATING, E => group_norm::<E>(launch))
}

fn group_norm<E: Element<Acc: Real>>(launch: &Launch<'_>) -> Result<(), String> {
    let (channels, groups) = (launch.scalar(0)?.to::<i64>() as usize, launch.scalar(1)?.to::<i64>() as usize);
    let eps: E::Acc = launch.scalar(4)?.to();
    let mut operands = Operands { launch, next: 0 };
    let output = operands.view();
    let (save_mean, save_inverse) = (operands.values::<E::Acc>()?, operands.values::<E::Acc>()?);
    let input = operands.view();
    let weight = operands.parameter(2, channels, E::Acc::ONE)?;
    let bias = operands.parameter(3, channels, E::Acc::ZERO)?;
    let (rows, span) = (input.size(0), channels / groups);
    let (means, squares, count) = moments::<E>(input, Channels { count: rows / span, span })?;
    let inverses: Vec<_> = squares.iter().map(|square| inverse(square.div(count), eps)).collect();
    for group in 0..rows / span {
        save_mean.set(group, means[group]);
        save_inverse.set(group, inverses[group]);
    }
    let scales: Vec<_> = (0..rows).map(|row| inverses[row / span].mul(weight[row % channels])).collect();
    let shifts: Vec<_> = (0..rows).map(|row| bias[row % channels].sub(means[row / span].mul(scales[row]))).collect();
    map::<E, _, 2, 1>(output, [input], Channels { count: rows, span: 1 }, [&scales, &shifts], Affine, launch.cost())
}

/// `aten::native_group_norm_backward`. Operands [grad of x, grad of weight?, grad of bias?, grad, x, mean, rstd, weight?]; grads and x have a
/// row for every sample and channel; scalars [channels, groups, whether there is a grad of weight, of bias, a weight].
///
/// # Errors
/// The wrong operands.
pub fn native_group_norm_backward(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in FLOATING, E => group_norm_backward::<E>(launch))
}

fn group_norm_backward<E: Element<Acc: Real>>(launch: &Launch<'_>) -> Result<(), String> {
    let (channels, groups) = (launch.scalar(0)?.to::<i64>() as usize, launch.scalar(1)?.to::<i64>() as usize);
    let mut operands = Operands { launch, next: 0 };
    let output = operands.view();
    let (weight_grad, bias_grad) = (operands.given::<E::Acc>(2)?, operands.given::<E::Acc>(3)?);
    let (grad, input) = (operands.view(), operands.view());
    let (means, inverses) = (operands.values::<E::Acc>()?.to_vec(), operands.values::<E::Acc>()?.to_vec());
    let weight = operands.parameter(4, channels, E::Acc::ONE)?;
    let (rows, span, zero) = (input.size(0), channels / groups, E::Acc::ZERO);
    let own = Channels { count: rows, span: 1 };
    let row_means: Vec<_> = (0..rows).map(|row| means[row / span]).collect();
    let [plain, products] = sums::<E, _, 1, 2, 2>([grad, input], own, [&row_means], Products)?;
    for channel in 0..channels {
        let samples = || (channel..rows).step_by(channels);
        if let Some(weight_grad) = &weight_grad {
            weight_grad.set(channel, samples().fold(zero, |sum, row| sum.add(products[row].mul(inverses[row / span]))));
        }
        if let Some(bias_grad) = &bias_grad {
            bias_grad.set(channel, samples().fold(zero, |sum, row| sum.add(plain[row])));
        }
    }
    // The gradients of a group's mean and scale, from those of its channels.
    let count = E::Acc::from_i64((span * input.size(1)) as i64);
    let (mut scales, mut slopes, mut bases) = (vec![zero; rows], vec![zero; rows], vec![zero; rows]);
    for group in 0..rows / span {
        let (mean, inverse) = (means[group], inverses[group]);
        let total = |sums: &[E::Acc]| {
            (group * span..(group + 1) * span).fold(zero, |total, row| total.add(sums[row].mul(weight[row % channels])))
        };
        let slope = total(&products).div(count).mul(inverse).mul(inverse).mul(inverse).neg();
        let base = total(&plain).div(count).mul(inverse).neg();
        for row in group * span..(group + 1) * span {
            scales[row] = inverse.mul(weight[row % channels]);
            slopes[row] = slope;
            bases[row] = base.sub(slope.mul(mean));
        }
    }
    map::<E, _, 3, 2>(output, [grad, input], own, [&scales, &slopes, &bases], Combined, launch.cost())
}
