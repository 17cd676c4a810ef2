//! Moving the elements of a patch by size: from any steps to any steps. The dtype does not matter.

use super::space::Steps;
use crate::simd::{Leaf, vectorize};

/// Where the elements of a patch are.
#[derive(Clone, Copy)]
pub struct Place {
    pub data: *mut u8,
    pub steps: Steps,
}

impl Place {
    /// Elements of `size` bytes side by side, row after row of `cols`.
    #[inline(always)]
    pub fn dense(data: *mut u8, size: usize, cols: usize) -> Self {
        Self { data, steps: Steps { col: size as isize, row: (size * cols) as isize } }
    }

    /// Whether a patch of these sizes lies side by side here.
    #[inline(always)]
    pub fn is_dense(&self, size: usize, cols: usize, rows: usize) -> bool {
        let col = self.steps.col == size as isize || cols == 1;
        col && (rows == 1 || self.steps.row == (size * cols) as isize)
    }
}

/// Copies `rows` × `cols` elements of `size` bytes.
///
/// # Safety
/// All elements of both places may be accessed, and no element of `to` is one of `from` at another index.
pub unsafe fn copy(from: Place, to: Place, size: usize, cols: usize, rows: usize) {
    if from.is_dense(size, cols, rows) && to.is_dense(size, cols, rows) {
        // SAFETY: both are dense runs of that many bytes; `copy` allows that they are the same.
        unsafe { std::ptr::copy(from.data, to.data, size * cols * rows) };
        return;
    }
    let leaf = Copy { from, to, cols, rows };
    match size {
        1 => vectorize(Sized::<u8>(leaf, std::marker::PhantomData)),
        2 => vectorize(Sized::<u16>(leaf, std::marker::PhantomData)),
        4 => vectorize(Sized::<u32>(leaf, std::marker::PhantomData)),
        8 => vectorize(Sized::<u64>(leaf, std::marker::PhantomData)),
        _ => vectorize(Sized::<u128>(leaf, std::marker::PhantomData)),
    }
}

struct Copy {
    from: Place,
    to: Place,
    cols: usize,
    rows: usize,
}

struct Sized<T>(Copy, std::marker::PhantomData<T>);

impl<T: std::marker::Copy> Leaf for Sized<T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(Copy { from, to, cols, rows }, _) = self;
        let size = size_of::<T>() as isize;
        // The inner loop is the one whose target steps are short; with fixed steps it vectorises.
        let by_cols = to.steps.col.abs() <= to.steps.row.abs() || rows == 1;
        let (inner, outer) = if by_cols { (cols, rows) } else { (rows, cols) };
        let split = |steps: Steps| {
            if by_cols { (steps.col, steps.row) } else { (steps.row, steps.col) }
        };
        let (from_inner, from_outer) = split(from.steps);
        let (to_inner, to_outer) = split(to.steps);
        for line in 0..outer {
            let source = from.data.wrapping_offset(line as isize * from_outer);
            let target = to.data.wrapping_offset(line as isize * to_outer);
            if to_inner == size && from_inner == size {
                copy_line::<T>(source, size, target, size, inner);
            } else if to_inner == size && from_inner == 0 {
                copy_line::<T>(source, 0, target, size, inner);
            } else if to_inner == size {
                copy_line::<T>(source, from_inner, target, size, inner);
            } else {
                copy_line::<T>(source, from_inner, target, to_inner, inner);
            }
        }
    }
}

#[inline(always)]
fn copy_line<T: std::marker::Copy>(source: *const u8, source_step: isize, target: *mut u8, target_step: isize, count: usize) {
    for index in 0..count as isize {
        let (source, target) = (source.wrapping_offset(index * source_step), target.wrapping_offset(index * target_step));
        // SAFETY: `copy`'s caller promises that every element of the patch may be read.
        let value = unsafe { source.cast::<T>().read_unaligned() };
        // SAFETY: as above, for writing.
        unsafe { target.cast::<T>().write_unaligned(value) };
    }
}
