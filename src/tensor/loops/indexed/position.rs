//! Positions from indices: each index is checked, wrapped and scaled, and the positions of several indices are added.

use super::super::strided::StridedPtr;
use super::Rules;
use crate::simd::leaf;
use crate::tensor::DType;

pub trait IndexType: Copy + Into<i64> {}

impl IndexType for i32 {}
impl IndexType for i64 {}

/// The position of a skipped element.
pub const LEFT_OUT: i64 = i64::MIN;

/// The slots that an index chooses from: their number, and their distance in bytes.
#[derive(Clone, Copy)]
pub struct Slots {
    pub count: i64,
    pub step: i64,
    pub rules: Rules,
}

/// A patch of one index operand. Its positions are stored, or added to those of the previous indices.
pub struct Positions<'a> {
    pub index: StridedPtr,
    pub cols: usize,
    pub rows: usize,
    pub slots: Slots,
    pub is_first: bool,
    pub found: &'a mut [i64],
}

impl Positions<'_> {
    /// Fills in the positions. Fails with the index that is out of bounds; the positions are invalid then.
    pub fn fill(mut self, dtype: DType) -> Result<(), i64> {
        if self.slots.rules.skipped.is_some() {
            return self.fill_slowly(dtype);
        }
        let all_found = match dtype {
            DType::Int => fill::<i32>(&mut self),
            _ => fill::<i64>(&mut self),
        };
        // The slow loop finds the index that is out of bounds.
        if all_found { Ok(()) } else { self.fill_slowly(dtype) }
    }

    fn fill_slowly(self, dtype: DType) -> Result<(), i64> {
        for number in 0..self.cols * self.rows {
            let index = self.index(dtype, number / self.cols, number % self.cols);
            let slot = self.slots.slot(index);
            let position = &mut self.found[number];
            if Some(index) == self.slots.rules.skipped || (!self.is_first && *position == LEFT_OUT) {
                *position = LEFT_OUT;
            } else if self.slots.holds(slot) {
                *position = slot * self.slots.step + if self.is_first { 0 } else { *position };
            } else {
                return Err(index);
            }
        }
        Ok(())
    }

    fn index(&self, dtype: DType, row: usize, col: usize) -> i64 {
        let steps = self.index.steps;
        let at = self.index.data.wrapping_offset(row as isize * steps.row + col as isize * steps.col);
        match dtype {
            // SAFETY: the launch guarantees the index operand's elements, and this is one of the patch.
            DType::Int => unsafe { at.cast::<i32>().read_unaligned() }.into(),
            // SAFETY: as above.
            _ => unsafe { at.cast::<i64>().read_unaligned() },
        }
    }
}

impl Slots {
    /// The slot of an index, wrapped if negative indices are allowed; not checked.
    #[inline(always)]
    pub fn slot(&self, index: i64) -> i64 {
        if self.rules.wraps && index < 0 { index.wrapping_add(self.count) } else { index }
    }

    /// True if the slot is in bounds.
    #[inline(always)]
    pub fn holds(&self, slot: i64) -> bool {
        (slot as u64) < self.count as u64
    }
}

leaf! {
    /// Fills in the positions of indices of type `I`, none of which is skipped; returns whether all are in bounds.
    fn fill<I: IndexType>(positions: &mut Positions<'_>) -> bool {
        let Positions { index, cols, rows, slots, is_first, .. } = *positions;
        let mut missing = false;
        for row in 0..rows {
            let line = index.data.wrapping_offset(row as isize * index.steps.row);
            let positions = &mut positions.found[row * cols..][..cols];
            missing |= if index.steps.col == size_of::<I>() as isize {
                fill_line::<I>(line, size_of::<I>() as isize, slots, is_first, positions)
            } else {
                fill_line::<I>(line, index.steps.col, slots, is_first, positions)
            };
        }
        !missing
    }
}

/// Fills in the positions of a row; returns whether an index is out of bounds.
#[inline(always)]
fn fill_line<I: IndexType>(line: *const u8, step: isize, slots: Slots, is_first: bool, positions: &mut [i64]) -> bool {
    let mut missing = false;
    for (col, position) in positions.iter_mut().enumerate() {
        // SAFETY: the launch guarantees the index operand's elements, and a patch is part of them.
        let index: i64 = unsafe { line.wrapping_offset(col as isize * step).cast::<I>().read_unaligned() }.into();
        let slot = slots.slot(index);
        missing |= !slots.holds(slot);
        *position = slot.wrapping_mul(slots.step).wrapping_add(if is_first { 0 } else { *position });
    }
    missing
}
