//! Updates of indexed elements: the addressed operand is the target.
//!
//! Several elements may have the same slot, so the work is divided by slots and never by elements: along a dimension in which the
//! target has strides or, if none is long enough, into ranges of positions, for each of which one thread searches all indices. Each
//! slot gets its updates in the order of the launch, so that the bits do not depend on the number of threads.

use super::super::blocks::{BlockFunction, Blocks};
use super::super::buffer::with_zeros;
use super::super::index_space::{Patch, Space};
use super::super::strided::StridedPtr;
use super::position::Slots;
use super::single_index::Direct;
use super::{Index, Indexed, MAX_OPERANDS, out_of_bounds};
use crate::runtime::parallel_for;
use crate::simd::leaf;
use crate::simd::nontemporal::Stores;
use crate::tensor::{DType, Error, Launch, dispatch_size};
use crate::tuning::caches::{BLOCK, FAR_TARGET_BYTES, UPDATE_BLOCK};
use crate::tuning::sharing::{DIVIDED_UPDATE_NS, UPDATE_LANE_BYTES, UPDATE_ROW_BYTES, UPDATE_SAMPLES};

/// The update of an element of the target. The element type may be a dtype's or another one of the same size.
pub trait Update<E>: Copy + Send + Sync {
    /// The new value; mark it `#[inline(always)]`.
    fn apply(self, old: E, new: E) -> E;

    /// [`Self::apply`] for a single element outside a row.
    #[inline(always)]
    fn apply_single(self, old: E, new: E) -> E {
        self.apply(old, new)
    }
}

/// An element that is read and written.
pub trait Moved: Copy + Default + Send + Sync {}

impl<E: Copy + Default + Send + Sync> Moved for E {}

/// Replaces the old value by the new one.
#[derive(Clone, Copy)]
struct Store;

impl<E> Update<E> for Store {
    #[inline(always)]
    fn apply(self, _: E, new: E) -> E {
        new
    }
}

/// Stores the source's elements, or the element in the first bytes of `value` instead of each of them.
pub fn store(indexed: &Indexed<'_>, value: Option<u128>) -> Result<(), Error> {
    dispatch_size!(indexed.launch.dtype(0).size(), E => indexed.update::<E, _>(value, Store))
}

/// A range of positions: from the first, below the second.
type Range = (i64, i64);
const EVERYWHERE: Range = (0, i64::MAX);

impl Indexed<'_> {
    /// Updates the target's elements that the indices name with those of the source, or with the element in the first bytes of
    /// `value`.
    #[inline]
    pub fn update<E: Moved, U: Update<E>>(&self, value: Option<u128>, update: U) -> Result<(), Error> {
        self.drive(value, size_of::<E>(), &|to, from, picked| {
            match picked {
                Picked::WholeRows { cols, rows, positions, range } => {
                    update_rows::<E, U>([to, from], cols, &positions[..rows], range, update);
                }
                Picked::Elements { slots, positions } => {
                    update_elements::<E, U>(to, from, slots, positions, update);
                }
                Picked::All { index, dtype, cols, rows, slots } => {
                    return Direct { addressed: to, other: from, index, cols, rows, slots }.update::<E, U>(dtype, update);
                }
            }
            Ok(())
        })
    }

    /// Refuses operands of different dtypes, and elements of another size.
    pub(super) fn check_update(&self, value: Option<u128>, size: usize) -> Result<(), Error> {
        let [target, source] = [0, 1].map(|operand| self.launch.view(operand).dtype());
        let fits = target.size() == size && (value.is_some() || source == target);
        if fits { Ok(()) } else { Err(Error::new(format!("{target:?} from {source:?}"))) }
    }

    /// Divides the work and computes positions; `body` updates the elements.
    fn drive(&self, value: Option<u128>, size: usize, body: UpdateBody<'_>) -> Result<(), Error> {
        self.check_update(value, size)?;
        let target = self.launch.view(0);
        if target.numel() > 0 {
            let value = value.as_ref().map(|value| std::ptr::from_ref(value) as usize);
            match self.division(size) {
                Division::None => self.piece(value, None, EVERYWHERE, body),
                Division::Along { dim, pieces } => {
                    let len = target.size(dim);
                    self.divide(pieces, &|piece| {
                        let (begin, end) = (len * piece / pieces, len * (piece + 1) / pieces);
                        self.piece(value, Some((dim, begin, end)), EVERYWHERE, body);
                    });
                }
                Division::Ranges { pieces } => {
                    let span = self.span();
                    let bound = |piece: usize| (i128::from(span) * piece as i128 / pieces as i128) as i64;
                    self.divide(pieces, &|piece| self.piece(value, None, (bound(piece), bound(piece + 1)), body));
                }
            }
        }
        self.failure.result()
    }

    fn divide(&self, pieces: usize, piece: &(dyn Fn(usize) + Sync)) {
        parallel_for::parallel_for(pieces, self.cost() as u64, piece);
    }

    /// Nanoseconds of one thread.
    pub(super) fn cost(&self) -> f64 {
        self.launch.view(0).numel() as f64 * self.launch.cost()
    }

    /// Bytes from the first possible position to the end of the last.
    fn span(&self) -> i64 {
        self.indices().iter().map(|index| (index.slots.count - 1).max(0) * index.slots.step).sum::<i64>() + 1
    }

    /// True if no index changes along a dimension.
    pub(super) fn is_by_row_along(&self, dim: usize) -> bool {
        self.indices().iter().all(|index| self.launch.view(index.operand).stride(dim) == 0)
    }

    fn division(&self, size: usize) -> Division {
        let target = self.launch.view(0);
        let threads = parallel_for::num_threads();
        if threads == 1 || self.cost() < DIVIDED_UPDATE_NS {
            return Division::None;
        }
        let lanes = |dim: usize| match target.stride(dim) {
            0 => 0,
            step if step.unsigned_abs() <= size => target.size(dim) * size / UPDATE_LANE_BYTES,
            _ => target.size(dim),
        };
        match (0..target.ndim()).max_by_key(|&dim| lanes(dim)) {
            // Threads with rows of their own share neither pages nor prefetched cache lines.
            Some(_) if self.rows_are_spread(size, threads) => Division::Ranges { pieces: threads },
            Some(dim) if lanes(dim) >= threads => {
                // If the indices are constant along the dimension, each piece has to read all of them.
                Division::Along { dim, pieces: lanes(dim).min(if self.is_by_row_along(dim) { threads } else { 4 * threads }) }
            }
            // If each element has an index of its own, reading all indices costs as much as the updates, except updates of memory
            // beyond the caches.
            _ if self.is_by_row_along(0) || self.span() > FAR_TARGET_BYTES => Division::Ranges { pieces: threads },
            _ => Division::None,
        }
    }

    /// True if there are many long rows, and a sample of them is spread evenly over `ranges` ranges of positions.
    fn rows_are_spread(&self, size: usize, ranges: usize) -> bool {
        let target = self.launch.view(0);
        let sizes = target.sizes();
        let row = sizes[0] as usize;
        let is_long = target.stride(0).unsigned_abs() == size && row * size >= UPDATE_ROW_BYTES;
        if !is_long || !self.is_by_row_along(0) || target.numel() < UPDATE_SAMPLES * ranges * row {
            return false;
        }
        let space = part_space(self.launch, sizes, None, None).cut_tiles(row, 1);
        let (patches, span) = (space.patches(), self.span());
        let mut counts = vec![0; ranges];
        for sample in 0..UPDATE_SAMPLES {
            let patch = sample * patches / UPDATE_SAMPLES;
            space.walk(patch, patch + 1, &mut |patch| {
                let mut position = [0];
                if patch.rows == 1 && self.locate(&space, patch, true, &mut position) {
                    let range = i128::from(position[0].max(0)) * ranges as i128 / i128::from(span);
                    counts[(range as usize).min(ranges - 1)] += 1;
                }
            });
        }
        // With three quarters of the rows on one of two threads, ranges are still faster than columns.
        counts.iter().sum::<usize>() == UPDATE_SAMPLES && counts.iter().all(|&count| count * ranges * 2 <= UPDATE_SAMPLES * 3)
    }

    /// The only index, if positions can be computed during the update: there is no range, no skipped index, and no row with one
    /// position.
    fn direct(&self, by_row: bool, range: Range) -> Option<Index> {
        let [only] = self.indices() else { return None };
        (!by_row && range == EVERYWHERE && only.slots.rules.skipped.is_none()).then_some(*only)
    }

    /// Updates a part of a dimension (or everything), at the positions inside a range.
    fn piece(&self, value: Option<usize>, part: Option<(usize, usize, usize)>, range: Range, body: UpdateBody<'_>) {
        let sizes = part_sizes(self.launch, part);
        let space = part_space(self.launch, &sizes, part, value);
        let space = if self.is_by_row_along(0) { space.cut_rows() } else { space.cut_tiles(BLOCK, 1) };
        let by_row = self.is_by_row(&space);
        if let Some(only) = self.direct(by_row, range) {
            space.walk(0, space.patches(), &mut |patch| {
                let [to, from, index] =
                    [0, 1, only.operand].map(|operand| StridedPtr { data: patch.data(operand), steps: space.steps(operand) });
                let all = Picked::All { index, dtype: only.dtype, cols: patch.cols, rows: patch.rows, slots: only.slots };
                if let Err(found) = body(to, from, all) {
                    self.failure.note(out_of_bounds(found, only.slots.count));
                }
            });
            return;
        }
        let slots = |patch: &Patch| [0, 1].map(|operand| StridedPtr { data: patch.data(operand), steps: space.steps(operand) });
        if by_row {
            with_zeros(space.patch_rows(), |positions| {
                space.walk(0, space.patches(), &mut |patch| {
                    if self.locate(&space, patch, by_row, positions) {
                        let ([to, from], positions) = (slots(patch), &positions[..patch.rows]);
                        let _known = body(to, from, Picked::WholeRows { cols: patch.cols, rows: patch.rows, positions, range });
                    }
                });
            });
            return;
        }
        with_zeros(space.patch_len(), |positions| {
            with_zeros(space.patch_len(), |picked| {
                space.walk(0, space.patches(), &mut |patch| {
                    if self.locate(&space, patch, by_row, positions) {
                        let [to, from] = slots(patch);
                        each_row(to, from, patch, positions, picked, range, body);
                    }
                });
            });
        });
    }
}

/// Updates the elements of each row whose positions are inside the range.
fn each_row(
    to: StridedPtr,
    from: StridedPtr,
    patch: &Patch,
    positions: &mut [i64],
    slots: &mut [u16],
    range: Range,
    body: UpdateBody<'_>,
) {
    for (row, positions) in positions[..patch.len()].chunks_exact_mut(patch.cols).enumerate() {
        let row_of = |slot: StridedPtr| StridedPtr { data: slot.data.wrapping_offset(row as isize * slot.steps.row), ..slot };
        let count = in_range(positions, &mut slots[..patch.cols], range);
        let _known = body(row_of(to), row_of(from), Picked::Elements { slots: &slots[..count], positions: &positions[..count] });
    }
}

/// The sizes of the launch's space, or of a part of it.
fn part_sizes(launch: &Launch<'_>, part: Option<(usize, usize, usize)>) -> Vec<i64> {
    let mut sizes = launch.view(0).sizes().to_vec();
    if let Some((dim, begin, end)) = part {
        sizes[dim] = (end - begin) as i64;
    }
    sizes
}

/// The launch's space, or a part of it.
pub(super) fn part_space<'a>(
    launch: &Launch<'a>,
    sizes: &'a [i64],
    part: Option<(usize, usize, usize)>,
    value: Option<usize>,
) -> Space<'a> {
    let mut space = Space::empty(sizes);
    for number in 0..launch.num_operands().min(MAX_OPERANDS) {
        let view = launch.view(number);
        let begin = part.map_or(0, |(dim, begin, _)| begin as isize * view.stride(dim));
        match value {
            Some(value) if number == 1 => space.add(value as *mut u8, &NO_STEPS[..sizes.len()]),
            _ => space.add(view.data().wrapping_offset(begin), view.strides()),
        }
    }
    space
}

static NO_STEPS: [i64; crate::tensor::view::MAX_DIMS] = [0; crate::tensor::view::MAX_DIMS];

/// How the work is divided between threads.
enum Division {
    None,
    /// Along a dimension of the launch.
    Along {
        dim: usize,
        pieces: usize,
    },
    /// Into ranges of positions.
    Ranges {
        pieces: usize,
    },
}

/// The elements to update, with positions relative to `to` and steps relative to `to` and `from`.
enum Picked<'a> {
    /// Rows of `cols` elements; a row is updated if its position is in the range.
    WholeRows { cols: usize, rows: usize, positions: &'a [i64], range: Range },
    /// The elements of a row at these columns, and their positions.
    Elements { slots: &'a [u16], positions: &'a [i64] },
    /// Every element, with its index, whose position has yet to be computed.
    All { index: StridedPtr, dtype: DType, cols: usize, rows: usize, slots: Slots },
}

/// Updates elements. Returns an index that is out of bounds, if positions are computed during the update.
type UpdateBody<'a> = &'a (dyn Fn(StridedPtr, StridedPtr, Picked<'_>) -> Result<(), i64> + Sync);

leaf! {
    /// Moves the positions inside a range to the front and lists their columns; returns their number.
    fn in_range(positions: &mut [i64], slots: &mut [u16], range: Range) -> usize {
        let (begin, end) = range;
        let mut count = 0;
        for slot in 0..positions.len() {
            let position = positions[slot];
            positions[count] = position;
            slots[count] = slot as u16;
            count += (position >= begin && position < end) as usize;
        }
        count
    }

    /// Updates whole rows of `cols` elements.
    fn update_rows<E: Moved, U: Update<E>>(sides: [StridedPtr; 2], cols: usize, positions: &[i64], range: Range, update: U) {
        let ([to, from], (begin, end), dense) = (sides, range, size_of::<E>() as isize);
        for (row, &position) in positions.iter().enumerate() {
            if position < begin || position >= end {
                continue;
            }
            let target = to.data.wrapping_offset(row as isize * to.steps.row + position as isize);
            let source = from.data.wrapping_offset(row as isize * from.steps.row).cast_const();
            if to.steps.col == dense && from.steps.col == dense {
                let (inputs, output) = ([target.cast::<E>().cast_const(), source.cast()], target.cast());
                let blocks = Blocks { inputs, output, count: cols, stores: Stores::Cached };
                // SAFETY: `locate` has found the row inside the target, where no other thread writes it; the source is readable.
                unsafe { blocks.run::<_, { UPDATE_BLOCK / 2 }>(Updated(update)) };
            } else {
                for col in 0..cols as isize {
                    let target = target.wrapping_offset(col * to.steps.col).cast::<E>();
                    // SAFETY: as above.
                    unsafe { change(target, source.wrapping_offset(col * from.steps.col).cast(), update) };
                }
            }
        }
    }
}

/// The block function that updates the old element by the new one.
#[derive(Clone, Copy)]
struct Updated<U>(U);

impl<E, U: Update<E>> BlockFunction<E, E, 2> for Updated<U> {
    const PAIRED: bool = size_of::<E>() == size_of::<u16>();

    #[inline(always)]
    fn apply(self, [old, new]: [E; 2]) -> E {
        self.0.apply(old, new)
    }

    #[inline(always)]
    fn apply_single(self, [old, new]: [E; 2]) -> E {
        self.0.apply_single(old, new)
    }
}

leaf! {
    fn update_elements<E: Copy, U: Update<E>>(to: StridedPtr, from: StridedPtr, slots: &[u16], positions: &[i64], update: U) {
        for (&slot, &position) in slots.iter().zip(positions) {
            let slot = slot as isize;
            let to = to.data.wrapping_offset(slot * to.steps.col + position as isize).cast::<E>();
            let from = from.data.wrapping_offset(slot * from.steps.col).cast::<E>();
            // SAFETY: `locate` has found the position inside the target, where no other thread writes it; the source is readable.
            unsafe { change(to, from, update) };
        }
    }
}

/// # Safety
/// `to` must be readable and writable, `from` readable.
#[inline(always)]
pub(super) unsafe fn change<E: Copy, U: Update<E>>(to: *mut E, from: *const E, update: U) {
    // SAFETY: the caller's promise.
    let new = unsafe { from.read_unaligned() };
    // SAFETY: as above.
    let old = unsafe { to.read_unaligned() };
    // SAFETY: as above.
    unsafe { to.write_unaligned(update.apply_single(old, new)) };
}
