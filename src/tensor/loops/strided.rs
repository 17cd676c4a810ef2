//! Strided copies of a patch: from any strides to any strides, for each element size, whatever the dtype.

use super::index_space::Steps;
#[cfg(target_arch = "x86_64")]
use super::transpose::transpose_in_registers;
use super::transpose::{Squares, Transpose};
use crate::simd::nontemporal::Stores;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Isa, isa};
use crate::simd::{leaf, vectorize};
use crate::tensor::{Element, dispatch_size};

/// Bytes of a block of a contiguous copy.
const RUN: usize = 128;

/// The number of bytes below which a row is not copied by two overlapping words.
const SHORT: usize = 16;

/// The elements of a patch in memory.
#[derive(Clone, Copy)]
pub struct StridedPtr {
    pub data: *mut u8,
    pub steps: Steps,
}

impl StridedPtr {
    /// Contiguous elements of `size` bytes, in rows of `cols`.
    #[inline(always)]
    pub fn dense(data: *mut u8, size: usize, cols: usize) -> Self {
        Self { data, steps: Steps { col: size as isize, row: (size * cols) as isize } }
    }

    /// True if a patch of these sizes is contiguous here.
    #[inline(always)]
    pub fn is_dense(&self, size: usize, cols: usize, rows: usize) -> bool {
        let col = self.steps.col == size as isize || cols == 1;
        col && (rows == 1 || self.steps.row == (size * cols) as isize)
    }
}

/// Copies `rows` × `cols` elements of `size` bytes.
///
/// # Safety
/// All elements of both sides must be accessible, and no element of `to` may be one of `from` at another index.
pub unsafe fn copy(from: StridedPtr, to: StridedPtr, size: usize, cols: usize, rows: usize) {
    if from.is_dense(size, cols, rows) && to.is_dense(size, cols, rows) {
        // SAFETY: both are dense runs of that many bytes; `copy` allows that they are identical.
        unsafe { copy_run(from.data, to.data, size * cols * rows, Stores::Cached) };
        return;
    }
    let strided = Copy::new(from, to, cols, rows);
    if let Some(transpose) = strided.transpose(size) {
        // SAFETY: passed on to the caller of `copy`; the sides of a transpose are not the same memory, as their steps differ.
        unsafe { copy_transposed(transpose, size) };
        return;
    }
    if let Some(bytes) = strided.dense_rows(size) {
        match bytes {
            RUN.. => copy_rows::<{ RUN / 8 }>(strided, bytes),
            64.. => copy_rows::<8>(strided, bytes),
            32.. => copy_rows::<4>(strided, bytes),
            _ => copy_rows::<2>(strided, bytes),
        }
        return;
    }
    dispatch_size!(size, T => copy_elements::<T>(strided));
}

/// Transposes a matrix of contiguous rows of `cols` elements. Panics if the slices have different lengths, or are not whole rows.
pub fn transpose<T: Element>(from: &[T], to: &mut [T], cols: usize) {
    let (size, rows) = (size_of::<T>(), from.len() / cols.max(1));
    assert!(rows * cols == from.len() && to.len() == from.len(), "a transpose of another size");
    let steps = |col: usize, row: usize| Steps { col: (col * size) as isize, row: (row * size) as isize };
    let from = StridedPtr { data: from.as_ptr().cast_mut().cast(), steps: steps(1, cols) };
    let to = StridedPtr { data: to.as_mut_ptr().cast(), steps: steps(rows, 1) };
    // SAFETY: both slices have all elements, and the borrows keep them apart.
    unsafe { copy(from, to, size, cols, rows) };
}

/// Copies contiguous bytes.
///
/// The C library's function is used for short runs only: on AMD's Zen 3 `rep movsb` takes 0.35 ns a byte, ten times as long as
/// anything else, if both addresses have nearly the same offset in a page.
///
/// # Safety
/// `bytes` bytes must be readable and writable, and both runs identical or disjoint. For non-temporal stores, `to` must be a
/// multiple of 16.
pub unsafe fn copy_run(from: *const u8, to: *mut u8, bytes: usize, stores: Stores) {
    if bytes < RUN {
        // SAFETY: the caller's promise; `copy` allows that they are identical.
        unsafe { std::ptr::copy(from, to, bytes) };
    } else {
        copy_long_run(from, to, bytes, stores);
    }
}

leaf! {
    fn copy_long_run(from: *const u8, to: *mut u8, bytes: usize, stores: Stores) {
        copy_words::<{ RUN / 8 }>(from, to, bytes, stores);
    }
}

/// Copies at least as many bytes as `WORDS` words have. Only leaves call it, with bytes that are promised to them.
#[inline(always)]
fn copy_words<const WORDS: usize>(from: *const u8, to: *mut u8, bytes: usize, stores: Stores) {
    let size = WORDS * size_of::<u64>();
    let copy_block = |first: usize, stores: Stores| {
        // SAFETY: the caller of `copy_run`, or that of `copy`, promises the bytes.
        let block = unsafe { from.wrapping_add(first).cast::<[u64; WORDS]>().read_unaligned() };
        // SAFETY: as above; all blocks that are stored non-temporally, except the last, start at a multiple of their size.
        unsafe { stores.write(to.wrapping_add(first).cast(), block) };
    };
    // The last block may overlap the one before: both write the same bytes there.
    let last = bytes - size;
    for first in (0..last).step_by(size) {
        copy_block(first, stores);
    }
    copy_block(last, Stores::Cached);
    stores.finish();
}

/// # Safety
/// As for [`Squares::new`].
unsafe fn copy_transposed(transpose: Transpose, size: usize) {
    #[cfg(target_arch = "x86_64")]
    if isa() >= Isa::Avx2 && matches!(size, 2 | 4 | 8) {
        match size {
            // SAFETY: passed on to the caller; the machine has AVX2.
            2 => unsafe { transpose_in_registers::<u16, 32>(transpose) },
            // SAFETY: as above.
            4 => unsafe { transpose_in_registers::<u32, 32>(transpose) },
            // SAFETY: as above.
            _ => unsafe { transpose_in_registers::<u64, 16>(transpose) },
        }
        return;
    }
    // SAFETY: passed on to the caller.
    dispatch_size!(size, T => vectorize(unsafe { Squares::<T, { square_side(size_of::<T>()) }>::new(transpose) }));
}

/// Elements of a side of a square of 16 cache lines or, for large elements, of fewer.
const fn square_side(size: usize) -> usize {
    if size > 4 { 64 / size } else { 16 }
}

/// A patch in the order of the copy: `inner` is the dimension along which the target's elements are closer.
struct Copy {
    from: StridedPtr,
    to: StridedPtr,
    inner: usize,
    outer: usize,
}

impl Copy {
    /// In the result `col` is the step along `inner`, and `row` that along `outer`.
    fn new(from: StridedPtr, to: StridedPtr, cols: usize, rows: usize) -> Self {
        if to.steps.col.abs() <= to.steps.row.abs() || rows == 1 {
            return Self { from, to, inner: cols, outer: rows };
        }
        let transposed = |strided: StridedPtr| StridedPtr {
            data: strided.data,
            steps: Steps { col: strided.steps.row, row: strided.steps.col },
        };
        Self { from: transposed(from), to: transposed(to), inner: rows, outer: cols }
    }

    /// The bytes of a row, if rows are contiguous on both sides and long enough to be copied by words.
    fn dense_rows(&self, size: usize) -> Option<usize> {
        let dense = [self.from, self.to].iter().all(|strided| strided.steps.col == size as isize);
        Some(self.inner * size).filter(|&bytes| dense && bytes >= SHORT)
    }

    /// The patch as a transpose, if it is one and large enough to benefit.
    fn transpose(&self, size: usize) -> Option<Transpose> {
        let size = size as isize;
        let is_transpose = self.to.steps.col == size && self.from.steps.row == size && self.from.steps.col != 0;
        let is_large = self.inner >= 8 && self.outer >= 8;
        (is_transpose && is_large).then_some(Transpose {
            from: self.from.data,
            from_step: self.from.steps.col,
            to: self.to.data,
            to_step: self.to.steps.row,
            inner: self.inner,
            outer: self.outer,
        })
    }
}

leaf! {
    /// Copies rows that are contiguous on both sides, with the given number of bytes: at least as many as `WORDS` words have.
    fn copy_rows<; WORDS: usize>(copy: Copy, bytes: usize) {
        let Copy { from, to, outer, .. } = copy;
        for index in 0..outer as isize {
            let (from, to) = (from.data.wrapping_offset(index * from.steps.row), to.data.wrapping_offset(index * to.steps.row));
            copy_words::<WORDS>(from, to, bytes, Stores::Cached);
        }
    }

    fn copy_elements<T: std::marker::Copy>(copy: Copy) {
        let Copy { from, to, inner, outer } = copy;
        let size = size_of::<T>() as isize;
        for index in 0..outer as isize {
            let mut line = Line {
                from: from.data.wrapping_offset(index * from.steps.row),
                from_step: from.steps.col,
                to: to.data.wrapping_offset(index * to.steps.row),
                to_step: to.steps.col,
            };
            // With steps that are known at compile time the loop vectorises.
            match (to.steps.col == size, from.steps.col) {
                (true, 0) => {
                    (line.from_step, line.to_step) = (0, size);
                    line.copy::<T>(inner);
                }
                (true, step) if step == size => {
                    (line.from_step, line.to_step) = (size, size);
                    line.copy::<T>(inner);
                }
                (true, step) if step == -size => {
                    (line.from_step, line.to_step) = (-size, size);
                    line.copy::<T>(inner);
                }
                (true, _) => {
                    line.to_step = size;
                    line.copy::<T>(inner);
                }
                (false, _) => line.copy::<T>(inner),
            }
        }
    }
}

/// Elements at constant steps (bytes) on both sides.
#[derive(Clone, Copy)]
pub(super) struct Line {
    pub from: *const u8,
    pub from_step: isize,
    pub to: *mut u8,
    pub to_step: isize,
}

impl Line {
    /// Copies `count` elements. They must be accessible: leaves that make lines have that promise from their callers.
    #[inline(always)]
    pub fn copy<T: std::marker::Copy>(self, count: usize) {
        for index in 0..count as isize {
            let (from, to) = (self.from.wrapping_offset(index * self.from_step), self.to.wrapping_offset(index * self.to_step));
            // SAFETY: every element of the line is readable.
            let value = unsafe { from.cast::<T>().read_unaligned() };
            // SAFETY: as above; every element is writable.
            unsafe { to.cast::<T>().write_unaligned(value) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::for_each_isa;

    #[test]
    fn rows_of_any_length() {
        const ROWS: usize = 3;
        let from: Vec<u8> = (0..=u8::MAX).cycle().take(2000).collect();
        for (size, cols) in [1, 2, 4, 8, 16].into_iter().flat_map(|size| (1..=300 / size).map(move |cols| (size, cols))) {
            let (bytes, step) = (size * cols, size * cols + 2 * size);
            for_each_isa(|isa| {
                let mut to = vec![0; 2000];
                let strided =
                    |data: *mut u8, row: usize| StridedPtr { data, steps: Steps { col: size as isize, row: row as isize } };
                // SAFETY: both vectors have room for three rows and two elements more behind each.
                unsafe { copy(strided(from.as_ptr().cast_mut(), step), strided(to.as_mut_ptr(), step + size), size, cols, ROWS) };
                for row in 0..ROWS {
                    let (copied, rest) = to[row * (step + size)..].split_at(bytes);
                    assert_eq!(copied, &from[row * step..][..bytes], "{isa:?} {size} {cols}");
                    assert!(rest[..3 * size].iter().all(|&byte| byte == 0), "{isa:?} {size} {cols}");
                }
            });
        }
    }
}
