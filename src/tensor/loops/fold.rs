//! Reductions: [`Fold`], an associative combination of values, run over a launch by [`run`].
//!
//! The launch's operands are [out, in] of the same sizes, out with stride 0 in the reduced dimensions. Its index space is split into the
//! *kept* space (one index per output) and the *reduced* space. Outputs are taken in patches; the reduced space in *sections* of a length
//! that depends on the sizes alone. A section of a patch is folded in one of two ways:
//! - along rows, where the input's elements lie closest along a reduced dimension: blocks of values, [`LANES`] interleaved partial results
//!   per block, combined as a tree, and the blocks' results combined pairwise;
//! - along columns otherwise: one partial result per output, all of them advanced by each row of the input, with a second level that takes
//!   over every [`LEVEL`] rows, so that rounding errors grow slowly.
//!
//! The sections' results are combined pairwise. The order of all combinations depends on sizes and strides, never on threads.

use super::pointwise::{check_dtypes, gather, scatter};
use super::space::{Patch, Space};
use super::strided::Place;
use super::{BLOCK, Buffer, GRAIN};
use crate::runtime::threads;
use crate::simd::{Leaf, vectorize};
use crate::tensor::dtype::{DType, Element};
use crate::tensor::launch::Launch;
use crate::tensor::number::Number;
use crate::tensor::view::{MAX_DIMS, View};

/// Interleaved partial results of a block.
const LANES: usize = 64;
/// Rows that go into one partial result along columns.
const LEVEL: usize = 64;
/// Reduced elements of a section, at least.
const SECTION: usize = 32 * 1024;
/// Sections per output, at most.
const MAX_SECTIONS: usize = 64;

/// An associative combination of values with a neutral element.
pub trait Fold<T: Number>: Copy + Send + Sync {
    /// Combined with any value, it gives that value.
    const NEUTRAL: T;

    /// What one input value contributes; mark it `#[inline(always)]`.
    #[inline(always)]
    fn lift(self, value: T) -> T {
        value
    }

    /// Two partial results as one; mark it `#[inline(always)]`.
    fn combine(self, left: T, right: T) -> T;

    /// The result of `count` values.
    #[inline(always)]
    fn finish(self, folded: T, count: usize) -> T {
        let _ = count;
        folded
    }
}

/// Folds the launch's input, cast to `E`, into its output. The launch's cost decides how parallel.
///
/// # Errors
/// The wrong number of operands, or a dtype without conversions.
pub fn run<E: Element, F: Fold<E::Acc>>(launch: &Launch<'_>, fold: F) -> Result<(), String> {
    if launch.num_operands() != 2 {
        return Err(format!("{} operands where 2 are needed", launch.num_operands()));
    }
    check_dtypes(launch)?;
    let dims = Dims::new(launch);
    let job = Job::<E, F>::new(launch, &dims, fold);
    job.run();
    Ok(())
}

/// The dimensions of a reduction, kept and reduced ones apart, innermost first; each list has at least one.
struct Dims {
    kept: [i64; MAX_DIMS],
    kept_out: [i64; MAX_DIMS],
    kept_in: [i64; MAX_DIMS],
    reduced: [i64; MAX_DIMS],
    reduced_in: [i64; MAX_DIMS],
    num_kept: usize,
    num_reduced: usize,
}

impl Dims {
    fn new(launch: &Launch<'_>) -> Self {
        let (output, input) = (launch.view(0), launch.view(1));
        let ones = [1; MAX_DIMS];
        let zeros = [0; MAX_DIMS];
        let mut dims =
            Self { kept: ones, kept_out: zeros, kept_in: zeros, reduced: ones, reduced_in: zeros, num_kept: 0, num_reduced: 0 };
        for (dim, &size) in input.sizes().iter().enumerate() {
            let (out_stride, in_stride) = (output.strides()[dim], input.strides()[dim]);
            if out_stride == 0 {
                dims.reduced[dims.num_reduced] = size;
                dims.reduced_in[dims.num_reduced] = in_stride;
                dims.num_reduced += 1;
            } else {
                dims.kept[dims.num_kept] = size;
                (dims.kept_out[dims.num_kept], dims.kept_in[dims.num_kept]) = (out_stride, in_stride);
                dims.num_kept += 1;
            }
        }
        dims.num_kept = dims.num_kept.max(1);
        dims.num_reduced = dims.num_reduced.max(1);
        dims
    }

    /// Whether the input's elements lie closest along a reduced dimension, and enough of them to make rows.
    fn is_along_rows(&self) -> bool {
        let nearest = |sizes: &[i64], strides: &[i64]| {
            sizes.iter().zip(strides).filter(|(size, _)| **size > 1).map(|(_, stride)| stride.abs()).min()
        };
        let kept = nearest(&self.kept[..self.num_kept], &self.kept_in);
        let reduced = nearest(&self.reduced[..self.num_reduced], &self.reduced_in);
        match (kept, reduced) {
            (Some(kept), Some(reduced)) => reduced < kept && (self.reduced[0] >= LANES as i64 / 2 || self.kept[0] < LANES as i64),
            (None, _) => true,
            (Some(_), None) => false,
        }
    }
}

/// A reduction, cut up.
struct Job<'a, E: Element, F> {
    fold: F,
    output: View<'a>,
    input: DType,
    /// Over the kept dimensions, operands [out, in].
    kept: Space<'a>,
    /// Over the reduced dimensions, operand [in] by its offsets.
    reduced: Space<'a>,
    reduced_sizes: &'a [i64],
    reduced_strides: &'a [i64],
    along_rows: bool,
    /// Values per output.
    count: usize,
    /// What a section counts: patches of the reduced space along rows, its indices along columns.
    units: usize,
    section: usize,
    cost: f64,
    element: std::marker::PhantomData<E>,
}

impl<'a, E: Element, F: Fold<E::Acc>> Job<'a, E, F> {
    fn new(launch: &Launch<'a>, dims: &'a Dims, fold: F) -> Self {
        let (output, input) = (launch.view(0), launch.view(1));
        let along_rows = dims.is_along_rows();
        let reduced_sizes = &dims.reduced[..dims.num_reduced];
        let count = reduced_sizes.iter().map(|&size| size as usize).product::<usize>();
        let limit = (GRAIN / count.max(1)).clamp(if along_rows { 1 } else { 256 }, BLOCK);
        let kept = Space::empty(&dims.kept[..dims.num_kept])
            .with(output.data(), &dims.kept_out[..dims.num_kept])
            .with(input.data(), &dims.kept_in[..dims.num_kept])
            .cut(limit);
        let reduced_strides = &dims.reduced_in[..dims.num_reduced];
        let reduced = Space::empty(reduced_sizes).with(std::ptr::null_mut(), reduced_strides).cut(BLOCK);
        let (units, least) = if along_rows {
            (reduced.patches(), SECTION / reduced.patch_len())
        } else {
            (count, (SECTION / kept.patch_len()).max(LEVEL))
        };
        let section = least.max(units.div_ceil(MAX_SECTIONS)).next_multiple_of(if along_rows { 1 } else { LEVEL });
        let (input, cost, element) = (input.dtype(), launch.cost(), std::marker::PhantomData);
        Self {
            fold,
            output,
            input,
            kept,
            reduced,
            reduced_sizes,
            reduced_strides,
            along_rows,
            count,
            units,
            section,
            cost,
            element,
        }
    }

    fn run(&self) {
        let patches = self.kept.patches();
        let sections = self.units.div_ceil(self.section).max(1);
        let total = patches * self.kept.patch_len() * self.count;
        let cost = (total as f64 * self.cost) as u64;
        if sections == 1 {
            // Few outputs of small work each share a piece.
            let grain = GRAIN.div_ceil((self.kept.patch_len() * self.count).max(1));
            let body = |piece: usize| self.patches(piece * grain, (piece * grain + grain).min(patches));
            let pieces = patches.div_ceil(grain);
            if total < 2 * GRAIN {
                (0..pieces).for_each(body)
            } else {
                threads::parallel_for(pieces, cost, &body)
            }
            return;
        }
        let width = self.kept.patch_len();
        let mut partial = vec![F::NEUTRAL; patches * sections * width];
        let target = partial.as_mut_ptr() as usize;
        threads::parallel_for(patches * sections, cost, &|task| {
            let (patch, section) = (task / sections, task % sections);
            // Section by section, so that the sections of one output can be combined as rows.
            let offset = (patch * sections + section) * width;
            let results = (target as *mut E::Acc).wrapping_add(offset);
            let range = section * self.section..((section + 1) * self.section).min(self.units);
            self.kept.walk(patch, patch + 1, &mut |patch| Worker::new(self).fold(patch, range.clone(), results));
        });
        for (patch, rows) in partial.chunks_exact_mut(sections * width).enumerate() {
            self.kept.walk(patch, patch + 1, &mut |patch| self.combine_sections(patch, rows, sections, width));
        }
    }

    /// Folds whole outputs.
    fn patches(&self, begin: usize, end: usize) {
        let mut worker = Worker::new(self);
        self.kept.walk(begin, end, &mut |patch| {
            let mut results = [F::NEUTRAL; BLOCK];
            worker.fold(patch, 0..self.units, results.as_mut_ptr());
            self.store(patch, &mut results[..patch.len()]);
        });
    }

    /// Combines rows of results pairwise and stores the one that remains.
    fn combine_sections(&self, patch: &Patch, rows: &mut [E::Acc], mut sections: usize, width: usize) {
        while sections > 1 {
            let half = sections.div_ceil(2);
            for row in 0..sections / 2 {
                for col in 0..width {
                    let (left, right) = (rows[2 * row * width + col], rows[(2 * row + 1) * width + col]);
                    rows[row * width + col] = self.fold.combine(left, right);
                }
            }
            if sections % 2 == 1 {
                rows.copy_within((sections - 1) * width..sections * width, (half - 1) * width);
            }
            sections = half;
        }
        self.store(patch, &mut rows[..patch.len()]);
    }

    fn store(&self, patch: &Patch, results: &mut [E::Acc]) {
        for result in results.iter_mut() {
            *result = self.fold.finish(*result, self.count);
        }
        let place = Place { data: patch.data(0), steps: self.kept.steps(0) };
        let mut raw = Buffer::new();
        // SAFETY: `results` has the patch's values; the output is the launch's to write, and its dtype was checked.
        unsafe { scatter(results.as_mut_ptr().cast(), E::Acc::DTYPE, place, self.output.dtype(), &mut raw, patch) };
    }
}

/// One thread's buffers.
struct Worker<'j, E: Element, F> {
    job: &'j Job<'j, E, F>,
    block: Buffer,
    raw: Buffer,
}

impl<'j, E: Element, F: Fold<E::Acc>> Worker<'j, E, F> {
    fn new(job: &'j Job<'_, E, F>) -> Self {
        Self { job, block: Buffer::new(), raw: Buffer::new() }
    }

    /// Folds the units in `range` for every output of `patch` into `results`.
    fn fold(&mut self, patch: &Patch, range: std::ops::Range<usize>, results: *mut E::Acc) {
        let steps = self.job.kept.steps(1);
        for row in 0..patch.rows {
            let base = patch.data(1).wrapping_offset(row as isize * steps.row);
            let results = results.wrapping_add(row * patch.cols);
            if self.job.along_rows {
                for col in 0..patch.cols {
                    let folded = self.rows(base.wrapping_offset(col as isize * steps.col), range.clone());
                    // SAFETY: `results` has room for the patch's values.
                    unsafe { results.wrapping_add(col).write(folded) };
                }
            } else {
                self.columns(base, steps.col, patch.cols, range.clone(), results);
            }
        }
    }

    /// One output: blocks of values along the reduced space.
    fn rows(&mut self, base: *mut u8, range: std::ops::Range<usize>) -> E::Acc {
        let fold = self.job.fold;
        let job = self.job;
        let mut tree = Tree::<E::Acc>::new();
        job.reduced.walk(range.start, range.end, &mut |block| {
            let place = Place { data: base.wrapping_offset(block.data(0) as isize), steps: job.reduced.steps(0) };
            let values = self.values(place, block);
            tree.push(vectorize(FoldBlock::<E, F> { values, count: block.len(), fold }), |left, right| fold.combine(left, right));
        });
        tree.finish(|left, right| fold.combine(left, right)).unwrap_or(F::NEUTRAL)
    }

    /// `cols` outputs side by side: each row of the input advances all of them.
    fn columns(&mut self, base: *mut u8, col: isize, cols: usize, range: std::ops::Range<usize>, results: *mut E::Acc) {
        let fold = self.job.fold;
        let mut inner = [F::NEUTRAL; BLOCK];
        let mut outer = [F::NEUTRAL; BLOCK];
        let mut rows = 0;
        let mut odometer = Odometer::new(self.job.reduced_sizes, range.start);
        let mut left = range.len();
        while left > 0 {
            let (offset, run) = odometer.run(self.job.reduced_strides, left.min(BLOCK / cols).min(LEVEL - rows % LEVEL).max(1));
            let steps = super::space::Steps { col, row: self.job.reduced_strides[0] as isize };
            let place = Place { data: base.wrapping_offset(offset as isize), steps };
            let patch = Patch::new(cols, run);
            let (values, row) = self.lines(place, &patch);
            vectorize(FoldLines::<E, F> { values, row, rows: run, cols, results: inner.as_mut_ptr(), fold });
            (left, rows) = (left - run, rows + run);
            if rows % LEVEL == 0 || left == 0 {
                vectorize(Merge { from: &mut inner[..cols], into: &mut outer[..cols], neutral: F::NEUTRAL, fold });
            }
        }
        for (index, &value) in outer[..cols].iter().enumerate() {
            // SAFETY: `results` has room for the row's values.
            unsafe { results.wrapping_add(index).write(value) };
        }
    }

    /// The patch's values side by side, as `E`.
    fn values(&mut self, place: Place, patch: &Patch) -> *const E {
        if self.job.input == E::DTYPE && place.is_dense(size_of::<E>(), patch.cols, patch.rows) {
            return place.data.cast();
        }
        // SAFETY: the launch's input may be read, its dtype was checked; the block buffer holds any patch.
        unsafe { gather(place, self.job.input, self.block.data(), E::DTYPE, &mut self.raw, patch) };
        self.block.data().cast()
    }

    /// The patch's values as `E`, each row's side by side, and the bytes from one row to the next.
    fn lines(&mut self, place: Place, patch: &Patch) -> (*const E, isize) {
        if self.job.input == E::DTYPE && place.steps.col == size_of::<E>() as isize {
            return (place.data.cast(), place.steps.row);
        }
        (self.values(place, patch), (patch.cols * size_of::<E>()) as isize)
    }
}

/// Folds values side by side: lane by lane, then the lanes as a tree.
struct FoldBlock<E, F> {
    values: *const E,
    count: usize,
    fold: F,
}

impl<E: Element, F: Fold<E::Acc>> Leaf for FoldBlock<E, F> {
    type Output = E::Acc;

    #[inline(always)]
    fn run(self) -> E::Acc {
        let mut lanes = [F::NEUTRAL; LANES];
        let whole = self.count / LANES * LANES;
        for start in (0..whole).step_by(LANES) {
            for (lane, folded) in lanes.iter_mut().enumerate() {
                // SAFETY: `Worker::values` gave `count` values.
                let value = unsafe { self.values.wrapping_add(start + lane).read_unaligned() };
                *folded = self.fold.combine(*folded, self.fold.lift(value.load()));
            }
        }
        for (lane, folded) in lanes.iter_mut().enumerate().take(self.count - whole) {
            // SAFETY: as above.
            let value = unsafe { self.values.wrapping_add(whole + lane).read_unaligned() };
            *folded = self.fold.combine(*folded, self.fold.lift(value.load()));
        }
        let mut width = LANES;
        while width > 1 {
            width /= 2;
            for lane in 0..width {
                lanes[lane] = self.fold.combine(lanes[lane], lanes[lane + width]);
            }
        }
        lanes[0]
    }
}

/// Advances `cols` results by `rows` rows of values.
struct FoldLines<E: Element, F> {
    values: *const E,
    row: isize,
    rows: usize,
    cols: usize,
    results: *mut E::Acc,
    fold: F,
}

impl<E: Element, F: Fold<E::Acc>> Leaf for FoldLines<E, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for row in 0..self.rows {
            let line = self.values.cast::<u8>().wrapping_offset(row as isize * self.row).cast::<E>();
            for col in 0..self.cols {
                let result = self.results.wrapping_add(col);
                // SAFETY: `Worker::lines` gave rows of `cols` values.
                let value = unsafe { line.wrapping_add(col).read_unaligned() };
                // SAFETY: `results` has `cols` values.
                let folded = unsafe { result.read() };
                // SAFETY: as above.
                unsafe { result.write(self.fold.combine(folded, self.fold.lift(value.load()))) };
            }
        }
    }
}

/// Combines `from` into `into` and makes it neutral again.
struct Merge<'a, T, F> {
    from: &'a mut [T],
    into: &'a mut [T],
    neutral: T,
    fold: F,
}

impl<T: Number, F: Fold<T>> Leaf for Merge<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (from, into) in self.from.iter_mut().zip(self.into) {
            *into = self.fold.combine(*into, *from);
            *from = self.neutral;
        }
    }
}

/// Combines a sequence of results pairwise, as a binary counter: equal numbers of inputs meet.
struct Tree<T> {
    levels: [Option<T>; usize::BITS as usize],
}

impl<T: Copy> Tree<T> {
    fn new() -> Self {
        Self { levels: [None; usize::BITS as usize] }
    }

    #[inline]
    fn push(&mut self, mut value: T, combine: impl Fn(T, T) -> T) {
        for level in &mut self.levels {
            match level.take() {
                Some(left) => value = combine(left, value),
                None => {
                    *level = Some(value);
                    return;
                }
            }
        }
    }

    fn finish(self, combine: impl Fn(T, T) -> T) -> Option<T> {
        self.levels.into_iter().flatten().reduce(|right, left| combine(left, right))
    }
}

/// Counts through the reduced space in runs along its innermost dimension.
struct Odometer<'a> {
    sizes: &'a [i64],
    index: [usize; MAX_DIMS],
}

impl<'a> Odometer<'a> {
    fn new(sizes: &'a [i64], start: usize) -> Self {
        let mut index = [0; MAX_DIMS];
        let mut rest = start;
        for (position, &size) in index.iter_mut().zip(sizes) {
            *position = rest % size.max(1) as usize;
            rest /= size.max(1) as usize;
        }
        Self { sizes, index }
    }

    /// The offset of the next index, and how many follow it along the innermost dimension, at most `limit`; moves past them.
    fn run(&mut self, strides: &[i64], limit: usize) -> (i64, usize) {
        let offset = self.index.iter().zip(strides).map(|(&position, &stride)| position as i64 * stride).sum();
        let run = limit.min(self.sizes[0] as usize - self.index[0]);
        self.index[0] += run;
        for dim in 0..self.sizes.len() - 1 {
            if self.index[dim] < self.sizes[dim] as usize {
                break;
            }
            self.index[dim] = 0;
            self.index[dim + 1] += 1;
        }
        (offset, run)
    }
}
