//! Batch and group normalisation: each channel is scaled and shifted by its mean and variance.
//!
//! Operands are matrices: a row for each plane (contiguous), or a column for each channel (channels last). Values are computed in
//! `f32`, or `f64` for Double. Statistics, weights and their gradients have their own dtypes. Rows and columns are divided into
//! pieces of fixed lengths, whose sums are added in `f64` and in the order of the pieces, so that the bits do not depend on the
//! threads.

mod batch_norm;
mod group_norm;

use super::mean_variance::{self, Pair, wide};
use crate::tensor::loops::each_part;
use crate::tensor::prelude::*;
use crate::tuning::caches::CONVERTED_RUN;
use crate::tuning::sharing::{CHANNEL_NORM_ROWS, GRAIN, MEAN_VARIANCE_PIECE};

pub use batch_norm::{native_batch_norm, native_batch_norm_backward};
pub use group_norm::{native_group_norm, native_group_norm_backward};

/// Columns of a block that is computed in vector lanes.
const WIDE: usize = 32;
const NARROW: usize = 8;

/// The layout of a matrix: which elements belong to a channel.
#[derive(Clone, Copy)]
struct Shape {
    rows: usize,
    cols: usize,
    channels: usize,
    /// True if each column is a channel. Else each row is a plane, and row `i` belongs to channel `i % channels`.
    by_columns: bool,
}

impl Shape {
    fn of(view: &View<'_>, channels: Scalar, columns: Scalar) -> Result<Self, Error> {
        let (channels, by_columns) = (channels.to::<i64>() as usize, columns.is_true());
        let is_whole =
            view.ndim() == 2 && if by_columns { view.size(1) == channels } else { view.size(0).is_multiple_of(channels) };
        if !is_whole || view.numel() == 0 {
            return Err(Error::new(format!("{channels} channels in {:?}", view.sizes())));
        }
        Ok(Self { rows: view.size(0), cols: view.size(1), channels, by_columns })
    }

    /// Elements of a channel.
    fn count(&self) -> usize {
        self.rows * self.cols / self.channels
    }

    /// The number of pieces of a row, or of a column.
    fn pieces(&self) -> usize {
        if self.by_columns { self.rows.div_ceil(CHANNEL_NORM_ROWS) } else { self.cols.div_ceil(MEAN_VARIANCE_PIECE) }
    }

    /// The range of a piece within its row or column.
    fn part(&self, piece: usize) -> (usize, usize) {
        let (len, most) = if self.by_columns { (self.rows, CHANNEL_NORM_ROWS) } else { (self.cols, MEAN_VARIANCE_PIECE) };
        (piece * most, len.min((piece + 1) * most))
    }

    /// Calls `visit` with the channel, the number of elements and the sums of every piece, in the order of the pieces.
    fn each(&self, found: &[Pair], mut visit: impl FnMut(usize, f64, Pair)) {
        let (outer, pieces) = if self.by_columns { (1, self.pieces()) } else { (self.rows, self.pieces()) };
        let width = if self.by_columns { self.cols } else { 1 };
        let (mut found, mut first) = (found.iter(), 0);
        for _ in 0..outer {
            for piece in 0..pieces {
                let (begin, end) = self.part(piece);
                for (channel, &pair) in (first..first + width).zip(&mut found) {
                    visit(channel, (end - begin) as f64, pair);
                }
            }
            first = if self.by_columns || first + 1 == self.channels { 0 } else { first + 1 };
        }
    }
}

/// A pair of sums (or moments) of a piece.
trait Statistic<E: Element, const I: usize>: Copy + Sync {
    /// The sums of a part of a row. Mark it `#[inline(always)]`.
    fn row(self, channel: usize, inputs: [&[E]; I]) -> Pair;
    /// The sums of `W` columns, from column `first` on, of a few rows of `cols` elements. Mark it `#[inline(always)]`.
    fn columns<const W: usize>(self, first: usize, cols: usize, inputs: [&[E]; I]) -> [Pair; W];
}

/// The sums of a function over `W` columns.
#[inline(always)]
fn column_sums<E, const W: usize, const I: usize, const O: usize>(
    first: usize,
    cols: usize,
    inputs: [&[E]; I],
    function: impl Fn(usize, [E::Acc; I]) -> [E::Acc; O],
) -> [[E::Acc; W]; O]
where
    E: Element<Acc: Real>,
{
    let Aligned(sums) = &mut Aligned([[E::Acc::ZERO; W]; O]);
    let Aligned(values) = &mut Aligned([[E::Acc::ZERO; W]; I]);
    for row in 0..inputs[0].len() / cols {
        let at = row * cols + first;
        let rows = inputs.map(|input| &input[at..at + W]);
        if const { E::IS_CONVERTED_IN_RUNS } {
            for (values, row) in values.iter_mut().zip(rows) {
                E::load_run(row, values);
            }
        }
        for lane in 0..W {
            let value =
                |input: usize| if const { E::IS_CONVERTED_IN_RUNS } { values[input][lane] } else { rows[input][lane].load() };
            let found = function(lane, std::array::from_fn(value));
            for (sums, found) in sums.iter_mut().zip(found) {
                sums[lane] = sums[lane].add(found);
            }
        }
    }
    *sums
}

/// The mean, and the sum of squared deviations from it.
#[derive(Clone, Copy)]
struct MeanVar;

impl<E: Element<Acc: Real>> Statistic<E, 1> for MeanVar {
    #[inline(always)]
    fn row(self, _: usize, [input]: [&[E]; 1]) -> Pair {
        mean_variance::of_piece(input)
    }

    #[inline(always)]
    fn columns<const W: usize>(self, first: usize, cols: usize, inputs: [&[E]; 1]) -> [Pair; W] {
        let rows = inputs[0].len() / cols;
        let count = E::Acc::from_i64(rows as i64);
        let origins: [E::Acc; W] = std::array::from_fn(|lane| mean_variance::origin(inputs[0][first + lane].load()));
        let [sums] = column_sums::<E, W, 1, 1>(first, cols, inputs, |lane, [x]| [x.sub(origins[lane])]);
        let means: [E::Acc; W] = std::array::from_fn(|lane| origins[lane].add(sums[lane].div(count)));
        let [rest, squares] = column_sums::<E, W, 1, 2>(first, cols, inputs, |lane, [x]| {
            let apart = x.sub(means[lane]);
            [apart, apart.mul(apart)]
        });
        std::array::from_fn(|lane| {
            let found = mean_variance::corrected(means[lane], rest[lane], squares[lane], rows as f64);
            if found[1].is_finite() { found } else { mean_variance::in_double(inputs[0][first + lane..].iter().step_by(cols)) }
        })
    }
}

/// The sums for the gradients of the statistics: of the gradients, and of gradients times deviations from the mean.
#[derive(Clone, Copy)]
struct Products<'a, T> {
    means: &'a [T],
    /// Adjacent channels that share a mean (those of a group).
    span: usize,
}

impl<E: Element<Acc: Real>> Statistic<E, 2> for Products<'_, E::Acc> {
    #[inline(always)]
    fn row(self, channel: usize, inputs: [&[E]; 2]) -> Pair {
        let mean = self.means[if self.span == 1 { channel } else { channel / self.span }];
        mean_variance::sums(inputs, |[grad, x]| [grad, grad.mul(x.sub(mean))]).map(wide)
    }

    #[inline(always)]
    fn columns<const W: usize>(self, first: usize, cols: usize, inputs: [&[E]; 2]) -> [Pair; W] {
        let means: [E::Acc; W] = std::array::from_fn(|lane| self.means[first + lane]);
        let [plain, products] =
            column_sums::<E, W, 2, 2>(first, cols, inputs, |lane, [grad, x]| [grad, grad.mul(x.sub(means[lane]))]);
        std::array::from_fn(|lane| [wide(plain[lane]), wide(products[lane])])
    }
}

leaf! {
    /// Computes the pieces from number `first` on. With `by_columns`, the pieces of all columns over the same rows follow one
    /// another.
    fn pieces<E: Element, S: Statistic<E, I>; I: usize>(shape: Shape, statistic: S, inputs: [&[E]; I], first: usize, found: &mut [Pair]) {
        let cols = shape.cols;
        if shape.by_columns {
            for (piece, found) in found.chunks_mut(cols).enumerate() {
                let (begin, end) = shape.part(first / cols + piece);
                let rows = inputs.map(|input| &input[begin * cols..end * cols]);
                let (wide, rest) = found.as_chunks_mut::<WIDE>();
                let after = wide.len() * WIDE;
                for (tile, found) in wide.iter_mut().enumerate() {
                    *found = statistic.columns::<WIDE>(tile * WIDE, cols, rows);
                }
                let (narrow, rest) = rest.as_chunks_mut::<NARROW>();
                for (tile, found) in narrow.iter_mut().enumerate() {
                    *found = statistic.columns::<NARROW>(after + tile * NARROW, cols, rows);
                }
                let after = after + narrow.len() * NARROW;
                for (col, found) in rest.iter_mut().enumerate() {
                    [*found] = statistic.columns::<1>(after + col, cols, rows);
                }
            }
            return;
        }
        let pieces = shape.pieces();
        let (mut row, mut piece) = (first / pieces, first % pieces);
        let mut channel = row % shape.channels;
        for found in found {
            let (begin, end) = shape.part(piece);
            *found = statistic.row(channel, inputs.map(|input| &input[row * cols + begin..row * cols + end]));
            piece += 1;
            if piece == pieces {
                (row, piece) = (row + 1, 0);
                channel = if channel + 1 == shape.channels { 0 } else { channel + 1 };
            }
        }
    }
}

/// The statistic of every piece, in the order of [`Shape::each`].
fn statistics<E, S, const I: usize>(inputs: [&[E]; I], shape: Shape, statistic: S) -> Vec<Pair>
where
    E: Element,
    S: Statistic<E, I>,
{
    let (outer, width) = if shape.by_columns { (1, shape.cols) } else { (shape.rows, 1) };
    let mut found = vec![[0.0; 2]; outer * shape.pieces() * width];
    let len = (shape.rows * shape.cols).div_ceil(found.len());
    let grain = (GRAIN / len).max(1).div_ceil(width) * width;
    each_part(&mut found, grain, 0.3 * len as f64, &|first, found| pieces(shape, statistic, inputs, first, found));
    found
}

/// The mean of every channel, and the sum of its squared deviations.
fn moments<E: Element<Acc: Real>>(input: &[E], shape: Shape) -> Vec<Pair> {
    let found = statistics([input], shape, MeanVar);
    let (mut totals, count) = (vec![[0.0; 2]; shape.channels], shape.count() as f64);
    shape.each(&found, |channel, len, [mean, _]| totals[channel][0] += len * mean);
    for [mean, _] in &mut totals {
        *mean /= count;
    }
    shape.each(&found, |channel, len, [own, squares]| {
        let [mean, total] = &mut totals[channel];
        *total += squares + len * (own - *mean) * (own - *mean);
    });
    totals
}

/// The two sums of [`Products`] of every channel.
fn products<E: Element<Acc: Real>>(inputs: [&[E]; 2], shape: Shape, means: &[E::Acc], span: usize) -> Vec<Pair> {
    let found = statistics(inputs, shape, Products { means, span });
    if found.len() == shape.channels {
        // Every channel has exactly one piece.
        return found;
    }
    let mut totals = vec![[0.0; 2]; shape.channels];
    shape.each(&found, |channel, _, [plain, product]| {
        let [plains, products] = &mut totals[channel];
        *plains += plain;
        *products += product;
    });
    totals
}

/// A function of an element of each input, and of the numbers of its channel.
trait Channelwise<T, const P: usize, const I: usize>: Copy + Sync {
    /// Mark it `#[inline(always)]`.
    fn apply(self, channel: [T; P], inputs: [T; I]) -> T;
}

/// The result of the normalisation, from [mean, scale, shift].
#[derive(Clone, Copy)]
struct Affine;

impl<T: Number> Channelwise<T, 3, 1> for Affine {
    #[inline(always)]
    fn apply(self, [mean, scale, shift]: [T; 3], [x]: [T; 1]) -> T {
        x.sub(mean).mul(scale).add(shift)
    }
}

/// The gradient of x where mean and variance are constants (evaluation), from [scale].
#[derive(Clone, Copy)]
struct Scaled;

impl<T: Number> Channelwise<T, 1, 2> for Scaled {
    #[inline(always)]
    fn apply(self, [scale]: [T; 1], [grad, _]: [T; 2]) -> T {
        grad.mul(scale)
    }
}

/// The gradient of x where mean and variance depend on it (training), from [mean, scale, slope, base].
#[derive(Clone, Copy)]
struct Combined;

impl<T: Number> Channelwise<T, 4, 2> for Combined {
    #[inline(always)]
    fn apply(self, [mean, scale, slope, base]: [T; 4], [grad, x]: [T; 2]) -> T {
        grad.mul(scale).add(x.sub(mean).mul(slope)).add(base)
    }
}

/// The numbers with which the elements of a row are computed.
trait Numbers<T, const P: usize>: Copy + Sync {
    /// The numbers of a channel of a group of rows. Mark it `#[inline(always)]`.
    fn of(self, group: usize, channel: usize) -> [T; P];
}

/// A list of numbers for each channel.
impl<T: Copy + Sync, const P: usize> Numbers<T, P> for [&[T]; P] {
    #[inline(always)]
    fn of(self, _: usize, channel: usize) -> [T; P] {
        self.map(|numbers| numbers[channel])
    }
}

/// Applies a function of the index and of the inputs' elements to each of a run of elements. To be called within a [`Leaf`].
#[inline(always)]
pub(super) fn map_run<E, const I: usize>(inputs: [&[E]; I], output: &mut [E], function: impl Fn(usize, [E::Acc; I]) -> E::Acc)
where
    E: Element<Acc: Real>,
{
    let inputs = inputs.map(|input| &input[..output.len()]);
    if const { !E::IS_CONVERTED_IN_RUNS } {
        for (position, output) in output.iter_mut().enumerate() {
            *output = E::store(function(position, inputs.map(|input| input[position].load())));
        }
        return;
    }
    let Aligned(runs) = &mut Aligned([[E::Acc::ZERO; CONVERTED_RUN]; I]);
    let Aligned(results) = &mut Aligned([E::Acc::ZERO; CONVERTED_RUN]);
    for (run, output) in output.chunks_mut(CONVERTED_RUN).enumerate() {
        let (begin, count) = (run * CONVERTED_RUN, output.len());
        for (run, input) in runs.iter_mut().zip(inputs) {
            E::load_run(&input[begin..begin + count], run);
        }
        for (lane, result) in results[..count].iter_mut().enumerate() {
            *result = function(begin + lane, std::array::from_fn(|input| runs[input][lane]));
        }
        E::store_run(results, output);
    }
}

leaf! {
    /// Computes the elements from number `first` on, where each row belongs to one channel.
    fn each_row<E: Element<Acc: Real>, N: Numbers<E::Acc, P>, F: Channelwise<E::Acc, P, I>; I: usize, P: usize>(
        shape: Shape,
        span: usize,
        numbers: N,
        function: F,
        inputs: [&[E]; I],
        first: usize,
        output: &mut [E],
    ) {
        let Shape { cols, channels, .. } = shape;
        let inputs = inputs.map(|input| &input[first..first + output.len()]);
        let (mut row, mut at, mut end) = (first / cols, 0, cols - first % cols);
        let (mut channel, mut group, mut inside) = (row % channels, row / span, row % span);
        while at < output.len() {
            end = end.min(output.len());
            let (numbers, inputs) = (numbers.of(group, channel), inputs.map(|input| &input[at..end]));
            map_run(inputs, &mut output[at..end], |_, values| function.apply(numbers, values));
            (at, end, row, inside) = (end, end + cols, row + 1, inside + 1);
            channel = if channel + 1 == channels { 0 } else { channel + 1 };
            if inside == span {
                (group, inside) = (group + 1, 0);
            }
        }
    }

    /// Computes the elements from number `first` on, where each column is a channel.
    fn each_column<E: Element<Acc: Real>, F: Channelwise<E::Acc, P, I>; I: usize, P: usize>(
        numbers: [&[E::Acc]; P],
        function: F,
        inputs: [&[E]; I],
        first: usize,
        output: &mut [E],
    ) {
        let cols = numbers[0].len();
        let numbers = numbers.map(|numbers| &numbers[..cols]);
        for (row, output) in output.chunks_exact_mut(cols).enumerate() {
            let at = first + row * cols;
            let inputs = inputs.map(|input| &input[at..at + cols]);
            map_run(inputs, output, |col, values| function.apply(numbers.map(|numbers| numbers[col]), values));
        }
    }
}

/// Applies a function to all elements, with the numbers of their channels.
fn map<E, F, const I: usize, const P: usize>(
    output: &mut [E],
    inputs: [&[E]; I],
    shape: Shape,
    numbers: [&[E::Acc]; P],
    function: F,
    cost: f64,
) where
    E: Element<Acc: Real>,
    F: Channelwise<E::Acc, P, I>,
{
    if !shape.by_columns {
        return map_rows(output, inputs, shape, 1, numbers, function, cost);
    }
    let grain = GRAIN.div_ceil(shape.cols) * shape.cols;
    each_part(output, grain, cost, &|first, output| each_column(numbers, function, inputs, first, output));
}

/// Applies a function to all elements, with the numbers of the channel and the group (`span` adjacent rows) of each row.
fn map_rows<E, N, F, const I: usize, const P: usize>(
    output: &mut [E],
    inputs: [&[E]; I],
    shape: Shape,
    span: usize,
    numbers: N,
    function: F,
    cost: f64,
) where
    E: Element<Acc: Real>,
    N: Numbers<E::Acc, P>,
    F: Channelwise<E::Acc, P, I>,
{
    each_part(output, GRAIN, cost, &|first, output| {
        each_row::<E, N, F, I, P>(shape, span, numbers, function, inputs, first, output);
    });
}

/// The elements of an optional output of statistics, which a kernel computes one by one.
fn optional(output: Option<Output<'_>>) -> Result<Option<ValuesMut<'_, f64>>, Error> {
    output.map(ValuesMut::new).transpose()
}

fn narrow<T: Number>(value: f64) -> T {
    T::from_f64(value)
}

/// 1 / sqrt(variance + eps).
fn inverse(variance: f64, eps: f64) -> f64 {
    1.0 / (variance + eps).sqrt()
}
