//! Staging: the way of elements between an operand and contiguous scratch memory of a loop's dtype.
//!
//! A [`Stage`] packs and casts one rectangle of elements. [`Patches`] does so for all operands of a loop over patches, and only
//! where a loop cannot use an operand's own memory.

use super::index_space::{MAX_OPERANDS, Patch, Space, Steps};
use super::strided::{self, StridedPtr};
use super::{Buffer, cast};
use crate::tensor::{DType, Error, Flags, Launch};

/// Checks that every operand's dtype is convertible.
pub fn check_dtypes(launch: &Launch<'_>) -> Result<(), Error> {
    match (0..launch.num_operands()).map(|index| launch.dtype(index)).find(|dtype| !dtype.is_convertible()) {
        Some(dtype) => Err(Error::new(format!("{dtype:?} has no conversions"))),
        None => Ok(()),
    }
}

/// A rectangle of `cols` × `rows` elements, and where they lie in scratch memory.
#[derive(Clone, Copy)]
pub struct Stage {
    pub cols: usize,
    pub rows: usize,
    /// Elements from one column to the next, and from one row to the next.
    pub steps: [usize; 2],
    /// The number of elements that are cast: those of the rectangle and those between them.
    pub count: usize,
}

impl Stage {
    /// Rows one after the other.
    pub fn rows(cols: usize, rows: usize) -> Self {
        Self { cols, rows, steps: [1, cols], count: cols * rows }
    }

    /// The rectangle in scratch memory, with elements of `size` bytes.
    fn dense(&self, data: *mut u8, size: usize) -> StridedPtr {
        let [col, row] = self.steps.map(|step| (step * size) as isize);
        StridedPtr { data, steps: Steps { col, row } }
    }

    /// True if the rectangle lies here as it does in scratch memory.
    fn is_dense(&self, ptr: &StridedPtr, size: usize) -> bool {
        let Steps { col, row } = self.dense(ptr.data, size).steps;
        self.count == self.cols * self.rows && (ptr.steps.col == col || self.cols == 1) && (ptr.steps.row == row || self.rows == 1)
    }

    /// Gathers the elements at `from` into scratch memory at `to`, cast to `target`.
    ///
    /// # Safety
    /// The elements must be readable and of dtype `source`. `to`, and the memory that `raw` returns, must have room for `count`
    /// elements of either dtype. Both dtypes must be convertible, or the same.
    pub unsafe fn gather(&self, from: StridedPtr, source: DType, to: *mut u8, target: DType, raw: &mut dyn FnMut() -> *mut u8) {
        let mut packed = from.data;
        if source == target || !self.is_dense(&from, source.size()) {
            packed = if source == target { to } else { raw() };
            // SAFETY: the caller promises the elements, and room for them.
            unsafe { strided::copy(from, self.dense(packed, source.size()), source.size(), self.cols, self.rows) };
        }
        if source != target {
            // SAFETY: the elements are contiguous now, and the caller promises room for them.
            let cast = unsafe { cast::cast(packed, source, to, target, self.count) };
            debug_assert!(cast.is_ok(), "both dtypes are convertible");
        }
    }

    /// Scatters the elements of scratch memory at `from` to the rectangle at `to`, cast to `target`.
    ///
    /// # Safety
    /// The contract of [`Stage::gather`] holds, with source and target exchanged.
    pub unsafe fn scatter(&self, from: *mut u8, source: DType, to: StridedPtr, target: DType, raw: &mut dyn FnMut() -> *mut u8) {
        let is_dense = self.is_dense(&to, target.size());
        let mut packed = from;
        if source != target {
            packed = if is_dense { to.data } else { raw() };
            // SAFETY: the caller promises the elements and room for them; a dense rectangle is memory of the operand.
            let cast = unsafe { cast::cast(from, source, packed, target, self.count) };
            debug_assert!(cast.is_ok(), "both dtypes are convertible");
        }
        if source == target || !is_dense {
            // SAFETY: the elements are in the layout of scratch memory, and the caller promises those of the rectangle.
            unsafe { strided::copy(self.dense(packed, target.size()), to, target.size(), self.cols, self.rows) };
        }
    }
}

/// The data of each operand of a patch: contiguous elements.
pub type Data = [*mut u8; MAX_OPERANDS];

/// An operand of a loop over patches.
#[derive(Clone, Copy)]
struct Operand {
    dtype: DType,
    /// The dtype of the loop.
    wanted: DType,
    steps: Steps,
    /// True if it is never used in place: an input that an output overlaps.
    is_staged: bool,
    /// True if its block holds one value for all patches.
    is_constant: bool,
}

/// One thread's block buffers for the operands of a loop over patches.
pub struct Patches {
    operands: [Operand; MAX_OPERANDS],
    count: usize,
    outputs: usize,
    blocks: [Buffer; MAX_OPERANDS],
    raw: Buffer,
}

impl Patches {
    /// For the first `count` operands of a launch, of which the first `outputs` are written, in a loop over `dtypes`. With
    /// `in_place` the loop takes an input that is an output, element for element.
    pub fn new(
        launch: &Launch<'_>,
        space: &Space<'_>,
        dtypes: &[DType; MAX_OPERANDS],
        [outputs, count]: [usize; 2],
        in_place: bool,
    ) -> Self {
        let none =
            Operand { dtype: DType::Byte, wanted: DType::Byte, steps: Steps::default(), is_staged: false, is_constant: false };
        let blocks = [const { Buffer::new() }; MAX_OPERANDS];
        let mut patches = Self { operands: [none; MAX_OPERANDS], count, outputs, blocks, raw: Buffer::new() };
        for (index, &wanted) in dtypes.iter().enumerate().take(count) {
            let view = launch.view(index);
            let is_overwritten = (0..outputs).map(|output| launch.view(output)).any(|output| {
                let same = view.data() == output.data() && view.strides() == output.strides();
                view.overlaps(&output) && !(in_place && same && view.dtype().size() == output.dtype().size())
            });
            let is_constant = index >= outputs && (view.is_constant() || view.flags().has(Flags::IMMEDIATE));
            let (dtype, steps, is_staged) = (view.dtype(), space.steps(index), index >= outputs && is_overwritten);
            patches.operands[index] = Operand { dtype, wanted, steps, is_staged, is_constant };
            if is_constant {
                patches.spread(index, view.data(), space.patch_len());
            }
        }
        patches
    }

    /// Fills an input's block buffer with one value.
    fn spread(&mut self, index: usize, value: *const u8, count: usize) {
        let Operand { dtype, wanted, .. } = self.operands[index];
        let mut one = 0u128;
        let single = (&raw mut one).cast::<u8>();
        // SAFETY: the operand has at least one element of its dtype, and no element is larger than `one`.
        let cast = unsafe { cast::cast(value, dtype, single, wanted, 1) };
        debug_assert!(cast.is_ok(), "checked by check_dtypes");
        let from = StridedPtr { data: single, steps: Steps::default() };
        let to = StridedPtr::dense(self.blocks[index].data(), wanted.size(), count);
        // SAFETY: a block buffer holds a patch of any dtype; `count` is at most that.
        unsafe { strided::copy(from, to, wanted.size(), count, 1) };
    }

    /// Calls `body` with the operands' elements of a patch, which are aligned, and with their number; gathers the inputs before and
    /// scatters the outputs afterwards.
    #[inline]
    pub fn patch(&mut self, patch: &Patch, body: &mut dyn FnMut(&Data, usize)) {
        let Self { operands, count, outputs, blocks, raw } = self;
        let (stage, mut data) = (Stage::rows(patch.cols, patch.rows), [std::ptr::null_mut(); MAX_OPERANDS]);
        let mut raw = || raw.data();
        for (index, data) in data.iter_mut().enumerate().take(*count) {
            let Operand { dtype, wanted, steps, is_staged, is_constant } = operands[index];
            let ptr = StridedPtr { data: patch.data(index), steps };
            let is_aligned = (ptr.data as usize).is_multiple_of(wanted.size().min(8));
            if dtype == wanted && is_aligned && !is_staged && !is_constant && stage.is_dense(&ptr, wanted.size()) {
                *data = ptr.data;
                continue;
            }
            *data = blocks[index].data();
            if index >= *outputs && !is_constant {
                // SAFETY: the launch's operand is readable; a block buffer holds a patch of any dtype.
                unsafe { stage.gather(ptr, dtype, *data, wanted, &mut raw) };
            }
        }
        body(&data, patch.len());
        for (index, &from) in data.iter().enumerate().take(*outputs) {
            let Operand { dtype, wanted, steps, .. } = operands[index];
            if from != patch.data(index) {
                let to = StridedPtr { data: patch.data(index), steps };
                // SAFETY: the block buffer holds the patch's elements; the launch may write the output's.
                unsafe { stage.scatter(from, wanted, to, dtype, &mut raw) };
            }
        }
    }
}
