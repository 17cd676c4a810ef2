//! Loops with a single index that differs for each element: index and element are handled in one pass.

use super::super::strided::StridedPtr;
use super::indexed_update::{Update, change};
use super::position::{IndexType, Slots};
use crate::simd::leaf;
use crate::tensor::DType;

/// A patch of the addressed operand, of the other operand and of the index.
#[derive(Clone, Copy)]
pub struct Direct {
    pub addressed: StridedPtr,
    pub other: StridedPtr,
    pub index: StridedPtr,
    pub cols: usize,
    pub rows: usize,
    pub slots: Slots,
}

impl Direct {
    /// Updates the addressed operand's elements with those of the other operand.
    #[inline]
    pub fn update<E: Copy, U: Update<E>>(self, dtype: DType, update: U) -> Result<(), i64> {
        let missing = match dtype {
            DType::Int => walk::<E, i32, U>(self, update),
            _ => walk::<E, i64, U>(self, update),
        };
        missing.map_or(Ok(()), Err)
    }
}

leaf! {
    /// The update for elements of type `E` and indices of type `I`. Returns the first index that is out of bounds.
    fn walk<E: Copy, I: IndexType, U: Update<E>>(direct: Direct, update: U) -> Option<i64> {
        let Direct { addressed, other, index, cols, rows, slots } = direct;
        for row in 0..rows as isize {
            let [addressed_row, other_row, index_row] =
                [addressed, other, index].map(|slot| slot.data.wrapping_offset(row * slot.steps.row));
            for col in 0..cols as isize {
                // SAFETY: the launch guarantees the index operand's elements, and a patch is part of them.
                let found: i64 = unsafe { index_row.wrapping_offset(col * index.steps.col).cast::<I>().read_unaligned() }.into();
                let slot = slots.slot(found);
                if !slots.holds(slot) {
                    return Some(found);
                }
                let at = (col * addressed.steps.col).wrapping_add((slot * slots.step) as isize);
                let to = addressed_row.wrapping_offset(at).cast::<E>();
                // SAFETY: the position is inside the addressed operand, where no other thread writes it; the other operand is
                // readable.
                unsafe { change(to, other_row.wrapping_offset(col * other.steps.col).cast(), update) };
            }
        }
        None
    }
}
