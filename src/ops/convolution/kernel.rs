//! Convolutions of images as products: the weights of a group, a row for each output channel, times the windows of the images, a
//! column for each position. Windows of one element at every position are the image itself ([`as_product`]). Other blocks of
//! columns are packed into panels; the matrix of all windows is never stored (A. Anderson, A. Vasudevan, C. Keane, D. Gregg,
//! Low-memory GEMM-based convolution algorithms for deep neural networks, 2017).
//!
//! Sums are `f32` or `f64`, and rounded once. Those of packed windows add their terms in the order of channels and taps. How the
//! output is divided depends on the shapes alone, so results do not depend on the number of threads.

pub mod depthwise;

use std::ops::Range;

use crate::ops::matmul::kernel::register_tile::{COLUMNS, Left, RowMajor, multiply};
use crate::ops::matmul::kernel::{self as matmul, Entry, Matrix, Problem};
use crate::ops::movement::kernel::unfold::Windows;
use crate::tensor::loops::disjoint::DisjointSlice;
use crate::tensor::prelude::*;
use crate::tuning::algorithms::{CONVOLUTION_COLUMNS, CONVOLUTION_PANELS, CONVOLUTION_PARTS, CONVOLUTION_TERMS};
use crate::tuning::tasks::FEW_POSITIONS;

signature! {
    /// `aten::convolution` of images, not transposed. Operands [out (N, C', H', W'), image (N, C, H, W), weight (C', C / groups,
    /// height, width), bias? (C')], contiguous, of one dtype. In `Float` and `Double` and one group, out and image may be
    /// channels-last if the windows are the elements of the image.
    /// Scalars: those of [`im2col`](fn@crate::ops::movement::kernel::unfold::im2col) and the groups.
    convolution(out; image, weight, bias?)[kernel_height, kernel_width, dilation_height, dilation_width, padding_height, padding_width, stride_height, stride_width, windows_height, windows_width, groups] in FLOATING =>
        |launch, E| forward::<E>(launch);
}

/// The columns and rows of the smallest block: whole register tiles.
const MIN_COLUMNS: usize = 64;
const MIN_ROWS: usize = 24;
/// Nanoseconds of one thread for a multiply-add, and for an element of the output.
const PRODUCT: f64 = 0.018;
const ELEMENT: f64 = 0.5;

/// Columns of a panel: those of a tile of which AVX-512 keeps the sums of many rows in registers.
fn panel_width() -> usize {
    if simd::isa() == Isa::Avx512 { 2 * COLUMNS } else { COLUMNS }
}

/// `f32` and `f64`.
trait Sum: Real + Entry<Acc = Self> {}
impl<T: Real + Entry<Acc = T>> Sum for T {}

/// Elements of images and weights.
trait Widened: Element<Acc: Sum> {}
impl<E: Element<Acc: Sum>> Widened for E {}

/// The sizes of a convolution. Positions are numbered in the order of a contiguous output, over all images.
struct Plan {
    images: usize,
    groups: usize,
    /// Channels of the image, and of the output, in a group.
    channels: [usize; 2],
    height: Windows,
    width: Windows,
    image: [usize; 2],
}

impl Plan {
    fn new(launch: &Launch<'_>, out: &View<'_>, image: &View<'_>, weight: &View<'_>) -> Result<Self, Error> {
        let wrong = || Error::new(format!("convolution: {:?} of {:?} by {:?}", out.sizes(), image.sizes(), weight.sizes()));
        if [out, image, weight].iter().any(|operand| operand.ndim() != 4) {
            return Err(wrong());
        }
        let ([height, width], groups) = (Windows::both(launch)?, convolution::Scalars::of(launch)?.groups.count()?);
        let (channels, rows) = (weight.size(1), out.size(1) / groups.max(1));
        let plan =
            Self { images: out.size(0), groups, channels: [channels, rows], height, width, image: [image.size(2), image.size(3)] };
        let fits = groups > 0
            && [out.size(2), out.size(3)] == [height.count, width.count]
            && [weight.size(0), weight.size(2), weight.size(3)] == [out.size(1), height.kernel, width.kernel]
            && [image.size(0), image.size(1)] == [plan.images, channels * groups]
            && out.size(1) == rows * groups;
        if fits { Ok(plan.flattened()) } else { Err(wrong()) }
    }

    /// True if each window is one element and there is one for every element.
    fn is_pointwise(&self) -> bool {
        let is_identity = |axis: &Windows| axis.kernel == 1 && axis.stride == 1 && axis.padding == 0;
        [self.height, self.width].iter().zip(self.image).all(|(axis, size)| is_identity(axis) && axis.count == size)
    }

    /// The image as a single row if the windows are its elements.
    fn flattened(mut self) -> Self {
        if self.is_pointwise() {
            self.image = [1, self.image[0] * self.image[1]];
            (self.height.count, self.width.count) = (1, self.image[1]);
        }
        self
    }

    /// Positions of an image.
    fn positions(&self) -> usize {
        self.height.count * self.width.count
    }

    /// Terms of a sum.
    fn terms(&self) -> usize {
        self.channels[0] * self.taps()
    }

    /// Taps of a window.
    fn taps(&self) -> usize {
        self.height.kernel * self.width.kernel
    }

    /// The columns of a block: as many as make enough blocks for all threads, and panels that stay in the caches.
    fn columns(&self) -> usize {
        let few = |columns: usize| {
            let blocks = self.groups * (self.images * self.positions()).div_ceil(columns);
            blocks < CONVOLUTION_PARTS || columns * self.terms() > CONVOLUTION_PANELS
        };
        let mut columns = CONVOLUTION_COLUMNS;
        while few(columns) && columns > MIN_COLUMNS {
            columns /= 2;
        }
        columns
    }

    /// The sources of a range of positions: for each tap, those of each run of positions in a row of windows of an image.
    fn spots(&self, group: usize, block: &Range<usize>) -> Vec<Spot> {
        let [height, width] = self.image;
        let mut spots = Vec::new();
        for tap in 0..self.taps() {
            let (y, x) = (tap / self.width.kernel, tap % self.width.kernel);
            let inside = self.width.inside(x, width);
            let mut at = block.start;
            while at < block.end {
                let (line, begin) = (at / self.width.count, at % self.width.count);
                let (image, line) = (line / self.height.count, line % self.height.count);
                let len = (self.width.count - begin).min(block.end - at);
                let row = self.height.element(line, y, height);
                let [first, last] =
                    if row.is_some() { [inside.0, inside.1].map(|at| at.clamp(begin, begin + len) - begin) } else { [0; 2] };
                let source =
                    (first < last).then(|| (begin + first) * self.width.stride + x * self.width.dilation - self.width.padding);
                let channel = image * self.groups * self.channels[0] + group * self.channels[0];
                let from = source.map_or(0, |source| (channel * height + row.unwrap_or(0)) * width + source);
                spots.push(Spot { from, first, last, len });
                at += len;
            }
        }
        spots
    }
}

/// Where a run of adjacent columns finds one of their terms: elements from `from` on for the columns `first..last`, zeros for the
/// others of `len`.
struct Spot {
    from: usize,
    first: usize,
    last: usize,
    len: usize,
}

leaf! {
    /// Packs some terms of the columns that the spots of each tap describe into panels. `step`: elements from one channel to the
    /// next, and from one source of a run to the next.
    fn pack<E: Widened>(images: &[E], step: [usize; 2], spots: &[Spot], taps: usize, terms: Range<usize>, panels: &mut [E::Acc]) {
        let (depth, runs, width, [channel, every]) = (terms.len(), spots.len() / taps, panel_width(), step);
        let mut line = [E::Acc::ZERO; CONVOLUTION_COLUMNS];
        for (index, term) in terms.enumerate() {
            let images = &images[term / taps * channel..];
            let spots = &spots[term % taps * runs..][..runs];
            let panels = panels.chunks_exact_mut(width * depth).map(|panel| &mut panel[index * width..][..width]);
            if let ([Spot { from, first: 0, last, len }], 1) = (spots, every) && last == len {
                for (elements, panel) in images[*from..][..*len].chunks(width).zip(panels) {
                    E::load_run(elements, panel);
                    panel[elements.len()..].fill(E::Acc::ZERO);
                }
                continue;
            }
            let mut rest = &mut line[..];
            for spot in spots {
                let (to, after) = rest.split_at_mut(spot.len);
                rest = after;
                to[..spot.first].fill(E::Acc::ZERO);
                to[spot.last..].fill(E::Acc::ZERO);
                let to = &mut to[spot.first..spot.last];
                let Some(last) = to.len().checked_sub(1) else { continue };
                let from = &images[spot.from..][..=last * every];
                match every {
                    1 => E::load_run(from, to),
                    2 => {
                        to[last] = from[2 * last].load();
                        to.iter_mut().zip(from.as_chunks::<2>().0).for_each(|(to, [from, _])| *to = from.load());
                    }
                    _ => to.iter_mut().zip(from.chunks(every)).for_each(|(to, from)| *to = from[0].load()),
                }
            }
            line.chunks_exact(width).zip(panels).for_each(|(numbers, panel)| panel.copy_from_slice(numbers));
        }
    }

    /// Adds the bias of a row and rounds.
    fn finish<E: Widened>(sums: &mut [E::Acc], bias: E::Acc, out: &mut [E]) {
        if const { E::IS_CONVERTED_IN_RUNS } {
            for sum in &mut *sums {
                *sum = sum.add(bias);
            }
            E::store_run(sums, out);
        } else {
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = E::store(sum.add(bias)));
        }
    }
}

/// A convolution whose windows are the image's elements, in one group, as a matrix product for each image or, if the positions of all
/// images are equally far apart, for all of them. `None` for other convolutions, for few positions that are not one product, and for
/// 16 bit floats, which [`pack`] widens faster. `bias`: one for each output channel.
fn as_product<E: Widened>(plan: &Plan, [out, image, weight]: [&View<'_>; 3], bias: Option<&[E]>) -> Option<Problem> {
    let positions = plan.positions();
    // The distance of adjacent positions. The stride of a dimension of one element has no meaning.
    let step = |view: &View<'_>| match [view.size(2), view.size(3)] {
        [1, 1] => Some(view.stride(0)),
        [_, 1] => Some(view.stride(2)),
        [height, width] => (height == 1 || view.stride(2) == view.stride(3) * width as isize).then(|| view.stride(3)),
    };
    let steps = step(out).zip(step(image)).filter(|_| !E::IS_CONVERTED_IN_RUNS && plan.groups == 1 && plan.is_pointwise())?;
    let is_joined =
        |view: &View<'_>, step: isize| plan.images == 1 || positions == 1 || view.stride(0) == step * positions as isize;
    let are_joined = is_joined(out, steps.0) && is_joined(image, steps.1);
    if plan.images * positions <= FEW_POSITIONS as usize && (positions == 1 || !are_joined) {
        return None;
    }
    let matrix = |view: &View<'_>, row: isize, col: isize, batch: isize| Matrix { data: view.data(), row, col, batch, conj: false };
    let of_images = |view: &View<'_>, step: isize| matrix(view, view.stride(1), step, view.stride(0));
    let operands = [of_images(out, steps.0), matrix(weight, weight.stride(0), weight.stride(1), 0), of_images(image, steps.1)];
    let bias = bias.map(|bias| Matrix { col: 0, ..Matrix::contiguous(bias.as_ptr().cast_mut(), 1) });
    let [batch, columns] = if are_joined { [1, plan.images * positions] } else { [plan.images, positions] };
    // SAFETY: the sizes and strides are those of the views, which have elements of `E`; the launch guarantees their memory, and that
    // its output shares none with an input.
    let problem = unsafe { Problem::plain(E::DTYPE, [batch, plan.channels[1], columns, plan.channels[0]], operands, bias) };
    Some(if are_joined { problem.transposed() } else { problem })
}

fn forward<E: Widened>(launch: &Launch<'_>) -> Result<(), Error> {
    let convolution::Operands { out, image, weight, bias } = convolution::Operands::of(launch)?;
    let plan = Plan::new(launch, &out, &image, &weight)?;
    let other = || Error::new("convolution: an operand of another dtype or layout");
    let views: [&View<'_>; 3] = [&out, &image, &weight];
    let bias = bias.as_ref().map(Row::flat).transpose()?;
    let biases: Option<&[E]> = bias.and_then(|bias| bias.as_slice());
    let fits = biases.map(<[E]>::len) == bias.map(|_| plan.channels[1] * plan.groups);
    if !fits || views.iter().any(|view| view.dtype() != E::DTYPE) {
        return Err(other());
    }
    if let Some(problem) = as_product(&plan, views, biases) {
        return matmul::run(&problem);
    }
    let images: &[E] = image.elements()?;
    let (mut widened, mut of_bias) = (Memory::of(0), Memory::of(0));
    let weights = Row::flat(&weight)?.widened::<E>(&mut widened).ok_or_else(other)?;
    let bias = bias.and_then(|bias| bias.widened::<E>(&mut of_bias));
    let numbers: &mut [E] = out.into_elements()?;
    if !numbers.is_empty() {
        Job { plan, images, weights, bias, out: DisjointSlice::new(numbers) }.run();
    }
    Ok(())
}

/// A convolution whose operands have been checked.
struct Job<'a, E: Widened> {
    plan: Plan,
    images: &'a [E],
    weights: &'a [E::Acc],
    bias: Option<&'a [E::Acc]>,
    out: DisjointSlice<'a, E>,
}

impl<E: Widened> Job<'_, E> {
    /// Computes block by block: if there are many, each by one thread, else each by all of them.
    fn run(&self) {
        let (plan, columns) = (&self.plan, self.plan.columns());
        let (all, rows, terms) = (plan.images * plan.positions(), plan.channels[1], plan.terms());
        let across = all.div_ceil(columns);
        let cost = |columns: usize, rows: usize| columns as f64 * rows as f64 * (terms as f64 * PRODUCT + ELEMENT);
        let block_of = |index: usize| (index / across, index % across * columns..all.min((index % across + 1) * columns));
        let memory = || Memory::of(columns.next_multiple_of(panel_width()) * terms * size_of::<E::Acc>());
        if plan.groups * across >= CONVOLUTION_PARTS || rows < 2 * MIN_ROWS {
            parallel(plan.groups * across, 1, cost(columns, rows), &|begin, end| {
                for (group, block) in (begin..end).map(block_of) {
                    let (pitch, spots, mut memory) =
                        (block.len().next_multiple_of(panel_width()), plan.spots(group, &block), memory());
                    let panels = memory.numbers(pitch * terms);
                    for first in (0..terms).step_by(CONVOLUTION_TERMS) {
                        let depth = CONVOLUTION_TERMS.min(terms - first);
                        self.pack(&spots, first, &mut panels[first * pitch..][..depth * pitch]);
                    }
                    self.rows(group, &block, pitch, 0..rows, panels);
                }
            });
            return;
        }
        let few = rows.div_ceil(CONVOLUTION_PARTS).next_multiple_of(MIN_ROWS);
        for (group, block) in (0..plan.groups * across).map(block_of) {
            let (pitch, spots, mut memory) = (block.len().next_multiple_of(panel_width()), plan.spots(group, &block), memory());
            let panels: &mut [E::Acc] = memory.numbers(pitch * terms);
            let shared = DisjointSlice::new(panels);
            parallel(terms.div_ceil(CONVOLUTION_TERMS), 1, (CONVOLUTION_TERMS * pitch) as f64 * ELEMENT, &|begin, end| {
                for first in (begin..end).map(|index| index * CONVOLUTION_TERMS) {
                    let depth = CONVOLUTION_TERMS.min(terms - first);
                    // SAFETY: these terms' panels are this thread's alone, and nobody reads them before the loop has ended.
                    self.pack(&spots, first, unsafe { shared.part(first * pitch, depth * pitch) });
                }
            });
            let panels = &*panels;
            parallel(rows.div_ceil(few), 1, cost(columns, few), &|begin, end| {
                self.rows(group, &block, pitch, begin * few..rows.min(end * few), panels);
            });
        }
    }

    /// Packs [`CONVOLUTION_TERMS`] terms, or those that are left, from `first` on.
    fn pack(&self, spots: &[Spot], first: usize, panels: &mut [E::Acc]) {
        let (plan, last) = (&self.plan, self.plan.terms().min(first + CONVOLUTION_TERMS));
        pack(self.images, [plan.image[0] * plan.image[1], plan.width.stride], spots, plan.taps(), first..last, panels);
    }

    /// Computes rows of a block from its panels.
    fn rows(&self, group: usize, block: &Range<usize>, pitch: usize, rows: Range<usize>, panels: &[E::Acc]) {
        let (plan, terms, positions) = (&self.plan, self.plan.terms(), self.plan.positions());
        let mut memory = Memory::of(pitch * rows.len() * size_of::<E::Acc>());
        let sums = memory.numbers::<E::Acc>(pitch * rows.len());
        let all = group * plan.channels[1] + rows.start..group * plan.channels[1] + rows.end;
        let weights = &self.weights[all.start * terms..all.end * terms];
        if terms == 0 {
            sums.fill(E::Acc::ZERO);
        }
        for first in (0..terms).step_by(CONVOLUTION_TERMS) {
            let depth = CONVOLUTION_TERMS.min(terms - first);
            let (width, a) = (panel_width(), Left { data: &weights[first..], rows: terms, cols: 1 });
            let panels = panels[first * pitch..][..depth * pitch].chunks_exact(width * depth);
            for (column, panel) in (0..pitch).step_by(width).zip(panels) {
                let (sums, b) = (RowMajor { data: &mut sums[column..], rows: pitch }, RowMajor { data: panel, rows: width });
                multiply([rows.len(), width, depth], sums, a, b, first > 0);
            }
        }
        for (row, sums) in all.zip(sums.chunks_exact_mut(pitch)) {
            let (bias, mut at) = (self.bias.map_or(E::Acc::ZERO, |bias| bias[row]), block.start);
            while at < block.end {
                let (image, position) = (at / positions, at % positions);
                let count = (positions - position).min(block.end - at);
                let to = (image * plan.groups * plan.channels[1] + row) * positions + position;
                // SAFETY: no other thread has this row and these columns; the launch alone writes the output.
                finish(&mut sums[at - block.start..][..count], bias, unsafe { self.out.part(to, count) });
                at += count;
            }
        }
    }
}

/// Nanoseconds of one thread for a launch.
pub fn cost(launch: &Launch<'_>) -> u64 {
    let terms = launch.sizes(2).iter().skip(1).product::<i64>() as f64;
    (launch.numel(0) as f64 * (terms * PRODUCT + ELEMENT)) as u64
}
