//! Depthwise convolutions of images, and their gradients.
//!
//! Images and windows are operands (N, H, W, C), so that adjacent channels are vector lanes; weights are (C, height * width). Sums
//! are kept in registers, in `f32` or `f64`, and rounded once. A tile holds the sums of a few adjacent positions, for which each
//! weight is loaded once; for the gradient of the weights it holds the sums of a few elements of the kernel (taps). Rows of 16 bit
//! floats are widened beforehand. The gradient of an image is gathered: each element adds up the windows that contain it. The
//! shapes alone decide how rows are divided, and sums are added in the order of the rows, so that the bits do not depend on the
//! threads.

use std::ops::Range;

use crate::ops::movement::kernel::unfold::Windows;
use crate::tensor::loops::{block_results, row};
use crate::tensor::prelude::*;
use crate::tuning::sharing::{DEPTHWISE_PARTS, GRAIN};

signature! {
    /// A convolution or, with `to_image`, the gradient of the image. Operands [out, x, weight, bias?]: out and x are windows and
    /// image, or image and windows.
    depthwise(out; x, weight, bias?)[kernel_height, kernel_width, dilation_height, dilation_width, padding_height, padding_width, stride_height, stride_width, windows_height, windows_width, to_image] in FLOATING =>
        |launch, E| to_targets::<E>(launch);
    /// The gradients of the weights (C, height * width) and of the bias (C), where requested. Operands [gradients, image, windows].
    depthwise_weight(grad_weight?, grad_bias?; image, windows)[kernel_height, kernel_width, dilation_height, dilation_width, padding_height, padding_width, stride_height, stride_width, windows_height, windows_width] in FLOATING =>
        |launch, E| to_weights::<E>(launch);
}

/// Adjacent positions whose sums are in registers together.
const TILE: usize = 4;
/// Nanoseconds of one thread for each tap of an element of a source or target.
const ELEMENT: f64 = 0.1;
const TAP: f64 = 0.02;

/// The height or width of images and windows. Targets are computed from sources: windows from an image or, with `to_image`, an
/// image from windows.
#[derive(Clone, Copy)]
struct Axis {
    windows: Windows,
    image: usize,
    to_image: bool,
}

/// Targets at regular distances that read their sources through the same taps.
struct Run {
    first: usize,
    count: usize,
    /// Pairs of a tap and the source that the first target reads through it.
    taps: Vec<(usize, usize)>,
}

impl Axis {
    /// The number of targets and of sources.
    fn sizes(&self) -> [usize; 2] {
        if self.to_image { [self.image, self.windows.count] } else { [self.windows.count, self.image] }
    }

    /// The distances between adjacent targets of a run, and between their sources.
    fn steps(&self) -> [usize; 2] {
        if self.to_image { [self.windows.stride, 1] } else { [1, self.windows.stride] }
    }

    /// The taps through which a target reads a source, each with that source.
    fn taps(&self, target: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let Self { windows, image, to_image } = *self;
        let source = move |tap| if to_image { windows.window(target, tap) } else { windows.element(target, tap, image) };
        (0..windows.kernel).filter_map(move |tap| Some((tap, source(tap)?)))
    }

    fn runs(&self) -> Vec<Run> {
        let ([targets, _], [step, _]) = (self.sizes(), self.steps());
        let mut runs: Vec<Run> = Vec::new();
        for first in 0..step.min(targets) {
            let begin = runs.len();
            for target in (first..targets).step_by(step) {
                let numbers = |taps: &Run| taps.taps.iter().map(|&(tap, _)| tap).eq(self.taps(target).map(|(tap, _)| tap));
                match runs[begin..].last_mut().filter(|run| numbers(run)) {
                    Some(run) => run.count += 1,
                    None => runs.push(Run { first: target, count: 1, taps: self.taps(target).collect() }),
                }
            }
        }
        runs
    }

    /// The range from the first to the last source of some targets.
    fn sources(&self, targets: Range<usize>) -> Range<usize> {
        let sources = |target| self.taps(target).map(|(_, source)| source);
        let first = targets.clone().flat_map(sources).min().unwrap_or(0);
        first..targets.flat_map(sources).max().map_or(first, |last| last + 1)
    }
}

/// A tap of a run: the offsets of its weights, and of its source for the first target.
#[derive(Clone, Copy)]
struct Tap {
    weights: usize,
    sources: usize,
}

/// The geometry of a row of targets. `steps` are in numbers: from target to target of a run, and from source to source.
struct Plan {
    height: Axis,
    width: Axis,
    runs: Vec<Run>,
    channels: usize,
    steps: [usize; 2],
}

impl Plan {
    fn new(launch: &Launch<'_>, target: &View<'_>, source: &View<'_>, to_image: bool) -> Result<Self, Error> {
        let fits = target.ndim() == 4 && source.ndim() == 4 && target.size(0) == source.size(0) && target.size(3) == source.size(3);
        let wrong = || Error::new(format!("depthwise: {:?} of {:?}", target.sizes(), source.sizes()));
        if !fits {
            return Err(wrong());
        }
        let (windows, image) = (Windows::both(launch)?, if to_image { target } else { source });
        let [height, width] = [0, 1].map(|axis| Axis { windows: windows[axis], image: image.size(axis + 1), to_image });
        let channels = target.size(3);
        let is_whole = |axis: usize, of: Axis| of.sizes() == [target.size(axis), source.size(axis)];
        if !is_whole(1, height) || !is_whole(2, width) {
            return Err(wrong());
        }
        Ok(Self { height, width, runs: width.runs(), channels, steps: width.steps().map(|step| step * channels) })
    }

    fn count(&self) -> usize {
        self.height.windows.kernel * self.width.windows.kernel
    }

    /// The lengths of a row of targets, and of a row of sources, in numbers.
    fn lens(&self) -> [usize; 2] {
        self.width.sizes().map(|size| size * self.channels)
    }

    /// Finds the taps of a run in a row of targets. The slice of sources has `sources` numbers and begins with row `first`. Panics
    /// if a target reads a source outside the slice.
    fn taps(&self, (row, run): (usize, &Run), (sources, first): (usize, usize), taps: &mut Vec<Tap>) {
        let ([_, len], [_, step]) = (self.lens(), self.steps);
        taps.clear();
        for (y, source) in self.height.taps(row) {
            let tap = |&(x, at): &(usize, usize)| Tap {
                weights: (y * self.width.windows.kernel + x) * self.channels,
                sources: (source - first) * len + at * self.channels,
            };
            taps.extend(run.taps.iter().map(tap));
        }
        let reach = (run.count - 1) * step + self.channels;
        assert!(taps.iter().all(|tap| tap.sources + reach <= sources), "sources outside the operand");
    }

    /// The sources of a few rows of targets of an image in the computing type, widened into `memory` if necessary, and the row at
    /// which the slice begins.
    fn sources<'a, E: Element>(
        &self,
        view: &View<'a>,
        image: usize,
        rows: Range<usize>,
        memory: &'a mut Memory,
    ) -> Result<(&'a [E::Acc], usize), Error> {
        let (len, rows) = (self.lens()[1], self.height.sources(rows));
        Ok((numbers::<E>(Row::of(view, &[image]).part(rows.start * len, rows.end * len), memory)?, rows.start))
    }

    /// Calls `body` with each image that a range of rows of targets touches, and with the rows inside that image.
    fn each_image(
        &self,
        mut rows: Range<usize>,
        mut body: impl FnMut(usize, Range<usize>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let [height, _] = self.height.sizes();
        while !rows.is_empty() {
            let image = rows.start / height;
            let end = rows.end.min((image + 1) * height);
            body(image, rows.start - image * height..end - image * height)?;
            rows.start = end;
        }
        Ok(())
    }
}

/// `L` numbers from `at` on.
#[inline(always)]
fn lanes<T, const L: usize>(numbers: &[T], at: usize) -> &[T; L] {
    numbers[at..].first_chunk().expect("lanes within the operand")
}

/// [`lanes`] without a bounds check, which would take a quarter of the time of these loops.
///
/// # Safety
/// `at + L` must not exceed `numbers.len()`.
#[inline(always)]
unsafe fn lanes_unchecked<T, const L: usize>(numbers: &[T], at: usize) -> &[T; L] {
    debug_assert!(at + L <= numbers.len());
    // SAFETY: the caller guarantees the range; an array has the alignment of its elements.
    unsafe { &*numbers.as_ptr().wrapping_add(at).cast() }
}

/// Work over adjacent channels.
trait Lanes {
    /// Computes `L` channels from `channel` on; returns `L`. Mark it `#[inline(always)]`.
    fn run<const L: usize>(&mut self, channel: usize) -> usize;

    /// Computes all channels, in vectors of at most `registers` registers.
    #[inline(always)]
    fn run_all<T>(&mut self, channels: usize, registers: usize) {
        let bytes = if simd::isa() == Isa::Avx512 { 64 } else { 32 };
        let (widest, mut channel) = (registers * bytes / size_of::<T>(), 0);
        while channel < channels {
            channel += match widest.min(channels - channel) {
                32.. => self.run::<32>(channel),
                16.. => self.run::<16>(channel),
                8.. => self.run::<8>(channel),
                _ => self.run::<1>(channel),
            };
        }
    }
}

leaf! {
    fn narrow<E: Element>(numbers: &[E::Acc], elements: &mut [E]) {
        E::store_run(numbers, elements);
    }
}

/// The elements of a row in the computing type, widened into `memory` if necessary.
fn numbers<'a, E: Element>(row: Row<'a>, memory: &'a mut Memory) -> Result<&'a [E::Acc], Error> {
    row.widened::<E>(memory).ok_or_else(|| Error::new("depthwise: an operand of another dtype"))
}

leaf! {
    /// Computes a few rows of targets of an image.
    fn gather<T: Real>(plan: &Plan, rows: Range<usize>, sources: (&[T], usize), weights: &[T], bias: &[T], targets: &mut [T]) {
        let ((sources, first), mut taps, [len, _]) = (sources, Vec::with_capacity(plan.count()), plan.lens());
        for (row, targets) in rows.zip(targets.chunks_exact_mut(len)) {
            for run in &plan.runs {
                plan.taps((row, run), (sources.len(), first), &mut taps);
                let (targets, steps) = (&mut targets[run.first * plan.channels..], plan.steps);
                let is_whole = run.count >= TILE;
                let mut tile = Tile { taps: &taps, sources, weights, bias, targets, steps, at: 0, is_whole };
                for at in (0..run.count).step_by(if is_whole { TILE } else { 1 }) {
                    // The last tile ends where the run does: targets that are in two tiles are computed twice.
                    tile.at = if is_whole { at.min(run.count - TILE) } else { at };
                    tile.run_all::<T>(plan.channels, 2);
                }
            }
        }
    }
}

/// Computes [`TILE`] targets of a run (`is_whole`) or one, from number `at` on. The taps come from [`Plan::taps`] for the same
/// sources.
struct Tile<'a, T> {
    taps: &'a [Tap],
    sources: &'a [T],
    weights: &'a [T],
    bias: &'a [T],
    targets: &'a mut [T],
    steps: [usize; 2],
    at: usize,
    is_whole: bool,
}

impl<T: Real> Tile<'_, T> {
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "the compiler makes vectors of lanes before it unrolls anything")]
    fn sum<const L: usize, const N: usize>(&mut self, channel: usize) {
        let [to_target, to_source] = self.steps;
        let mut sums = [*lanes::<T, L>(self.bias, channel); N];
        for tap in self.taps {
            let weights = lanes::<T, L>(self.weights, tap.weights + channel);
            let first = tap.sources + self.at * to_source + channel;
            let sources: [&[T; L]; N] = std::array::from_fn(|position| {
                // SAFETY: `Plan::taps` has checked that each tap has sources for every target of the run and every channel; the
                // tile is part of the run, and the lanes are channels.
                unsafe { lanes_unchecked(self.sources, first + position * to_source) }
            });
            for lane in 0..L {
                for position in 0..N {
                    sums[position][lane] = sources[position][lane].mul_add(weights[lane], sums[position][lane]);
                }
            }
        }
        for (position, sums) in sums.iter().enumerate() {
            self.targets[(self.at + position) * to_target + channel..][..L].copy_from_slice(sums);
        }
    }
}

impl<T: Real> Lanes for Tile<'_, T> {
    #[inline(always)]
    fn run<const L: usize>(&mut self, channel: usize) -> usize {
        if self.is_whole {
            self.sum::<L, TILE>(channel);
        } else {
            self.sum::<L, 1>(channel);
        }
        L
    }
}

/// Nanoseconds of one thread for a launch.
pub fn cost(launch: &Launch<'_>) -> u64 {
    let largest = (0..launch.num_operands()).map(|operand| launch.numel(operand)).max().unwrap_or(0);
    (largest as f64 * per_element(launch)) as u64
}

fn per_element(launch: &Launch<'_>) -> f64 {
    let size = |axis| launch.scalar_or(axis, Scalar::Long(1)).to::<f64>();
    ELEMENT + size(0) * size(1) * TAP
}

fn to_targets<E: Element<Acc: Real>>(launch: &Launch<'_>) -> Result<(), Error> {
    let depthwise::Operands { out, x, weight, bias } = depthwise::Operands::of(launch)?;
    let to_image = depthwise::Scalars::of(launch)?.to_image.is_true();
    let plan = &Plan::new(launch, &out, &x, to_image)?;
    let (count, channels, [len, _]) = (plan.count(), plan.channels, plan.lens());
    let own = Values::<E::Acc>::new(weight)?.to_vec();
    let bias = &Values::or(bias, channels, E::Acc::ZERO)?[..];
    if own.len() != count * channels || bias.len() != channels {
        return Err(Error::new(format!("depthwise: {} weights of {channels} channels", own.len())));
    }
    let weights = &(0..own.len()).map(|at| own[at % channels * count + at / channels]).collect::<Vec<_>>()[..];
    let failure = Failure::default();
    let cost = per_element(launch) * len as f64;
    row::in_parts([out.into_flat()?], len, GRAIN.div_ceil(len.max(1)), cost, &|begin, end, [mut out]| {
        let part = |image: usize, rows: Range<usize>| {
            let mut widened = Memory::of(0);
            let sources = plan.sources::<E>(&x, image, rows.clone(), &mut widened)?;
            let at = (image * plan.height.sizes()[0] + rows.start - begin) * len;
            let mut out = out.part(at, at + rows.len() * len);
            if let Some(targets) = out.as_slice_mut::<E::Acc>() {
                gather(plan, rows, sources, weights, bias, targets);
            } else if let Some(rounded) = out.as_slice_mut::<E>() {
                let mut sums = Memory::of(size_of::<E::Acc>() * rounded.len());
                let targets = sums.numbers(rounded.len());
                gather(plan, rows, sources, weights, bias, &mut *targets);
                narrow(targets, rounded);
            }
            Ok(())
        };
        failure.note(plan.each_image(begin..end, part));
    });
    failure.result()
}

leaf! {
    /// Adds the gradients of the weights, followed by those of the bias, over a few rows of targets of an image.
    fn weight_gradient<T: Real>(
        plan: &Plan,
        rows: Range<usize>,
        sources: (&[T], usize),
        targets: &[T],
        sums: &mut [T],
        has_weight: bool,
        has_bias: bool,
    ) {
        let ((sources, first), mut taps, [len, _], channels) = (sources, Vec::with_capacity(plan.count()), plan.lens(), plan.channels);
        let registers = if simd::isa() == Isa::Avx512 { 2 } else { 1 };
        for (row, targets) in rows.zip(targets.chunks_exact(len)) {
            for run in plan.runs.iter().filter(|_| has_weight) {
                plan.taps((row, run), (sources.len(), first), &mut taps);
                let (targets, steps, count) = (&targets[run.first * channels..], plan.steps, run.count);
                TapSums { taps: &taps, sources, targets, sums, steps, count }.run_all::<T>(channels, registers);
            }
            for targets in targets.chunks_exact(channels).filter(|_| has_bias) {
                for (sum, &target) in sums[plan.count() * channels..].iter_mut().zip(targets) {
                    *sum = sum.add(target);
                }
            }
        }
    }
}

/// Adds the gradients of the taps over the `count` targets of a run. The taps come from [`Plan::taps`] for the same sources.
struct TapSums<'a, T> {
    taps: &'a [Tap],
    sources: &'a [T],
    targets: &'a [T],
    sums: &'a mut [T],
    steps: [usize; 2],
    count: usize,
}

impl<T: Real> TapSums<'_, T> {
    /// Adds the gradients of the first `K` taps; returns the other taps.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "the compiler makes vectors of lanes before it unrolls anything")]
    fn add<'t, const L: usize, const K: usize>(&mut self, taps: &'t [Tap], channel: usize) -> &'t [Tap] {
        let Some((taps, rest)) = taps.split_first_chunk::<K>() else { return taps };
        let [to_target, to_source] = self.steps;
        let mut sums: [[T; L]; K] = taps.map(|tap| *lanes(self.sums, tap.weights + channel));
        for position in 0..self.count {
            let targets = lanes::<T, L>(self.targets, position * to_target + channel);
            let sources: [&[T; L]; K] = taps.map(|tap| {
                // SAFETY: `Plan::taps` has checked that each tap has sources for every target of the run and every channel; the
                // lanes are channels.
                unsafe { lanes_unchecked(self.sources, tap.sources + position * to_source + channel) }
            });
            for lane in 0..L {
                for tap in 0..K {
                    sums[tap][lane] = sources[tap][lane].mul_add(targets[lane], sums[tap][lane]);
                }
            }
        }
        for (tap, sums) in taps.iter().zip(sums) {
            self.sums[tap.weights + channel..][..L].copy_from_slice(&sums);
        }
        rest
    }
}

impl<T: Real> Lanes for TapSums<'_, T> {
    #[inline(always)]
    fn run<const L: usize>(&mut self, channel: usize) -> usize {
        let mut taps = self.taps;
        while !taps.is_empty() {
            taps = match taps.len() {
                9.. => self.add::<L, 9>(taps, channel),
                7.. => self.add::<L, 7>(taps, channel),
                3.. => self.add::<L, 3>(taps, channel),
                _ => self.add::<L, 1>(taps, channel),
            };
        }
        L
    }
}

fn to_weights<E: Element<Acc: Real>>(launch: &Launch<'_>) -> Result<(), Error> {
    let depthwise_weight::Operands { grad_weight, grad_bias, image, windows } = depthwise_weight::Operands::of(launch)?;
    let (has_weight, has_bias) = (grad_weight.is_some(), grad_bias.is_some());
    let plan = &Plan::new(launch, &windows, &image, false)?;
    let (count, channels, [len, _]) = (plan.count(), plan.channels, plan.lens());
    let rows = windows.size(0) * windows.size(1);
    let grain = (2 * GRAIN).div_ceil(len.max(1)).max(rows.div_ceil(DEPTHWISE_PARTS));
    let failure = Failure::default();
    let parts = block_results(rows.div_ceil(grain), per_element(launch) * (grain * len) as f64, &|part| {
        let mut sums = vec![E::Acc::ZERO; (count + 1) * channels];
        let of_image = |number: usize, rows: Range<usize>| {
            let mut memories = [0, 0].map(Memory::of);
            let [widened, own] = &mut memories;
            let sources = plan.sources::<E>(&image, number, rows.clone(), widened)?;
            let targets = numbers::<E>(Row::of(&windows, &[number]).part(rows.start * len, rows.end * len), own)?;
            weight_gradient(plan, rows, sources, targets, &mut sums, has_weight, has_bias);
            Ok(())
        };
        failure.note(plan.each_image(part * grain..rows.min((part + 1) * grain), of_image));
        sums
    });
    failure.result()?;
    let mut totals = vec![E::Acc::ZERO; (count + 1) * channels];
    for part in parts {
        totals.iter_mut().zip(part).for_each(|(total, sum)| *total = total.add(sum));
    }
    let result_of = |output: Option<Output<'_>>, total_of: &dyn Fn(usize) -> usize| {
        let Some(output) = output else { return Ok(()) };
        let mut results = output.into_flat()?;
        (0..results.len()).for_each(|at| results.store(at, E::store_single(totals[total_of(at)])));
        Ok(())
    };
    result_of(grad_weight, &|at| at % count * channels + at / count)?;
    result_of(grad_bias, &|at| count * channels + at)
}
