//! Transposing copies: the contiguous dimension of the source is not that of the target.
//!
//! A loop along either dimension would touch a cache line per element, and rows at a distance of a power of two map to the same
//! cache sets. Therefore squares of whole cache lines are transposed one after the other, each by smaller squares that fit into
//! registers. Neither side then depends on lines that stay in the cache.

use super::strided::Line;
use crate::simd::Leaf;
#[cfg(target_arch = "x86_64")]
use crate::simd::register_transpose::{RegisterTranspose, Square};

/// A matrix of `inner` × `outer` elements: contiguous along `inner` in the target, along `outer` in the source.
#[derive(Clone, Copy)]
pub struct Transpose {
    pub from: *const u8,
    /// Bytes from one element to the next along `inner` in the source.
    pub from_step: isize,
    pub to: *mut u8,
    /// Bytes from one element to the next along `outer` in the target.
    pub to_step: isize,
    pub inner: usize,
    pub outer: usize,
}

impl Transpose {
    /// Copies the elements beyond the first `inner` × `outer` ones.
    #[inline(always)]
    fn rest<T: Copy>(self, inner: usize, outer: usize) {
        let size = size_of::<T>();
        for col in 0..self.outer {
            let start = if col < outer { inner } else { 0 };
            let line = Line {
                from: self.from.wrapping_add(col * size).wrapping_offset(start as isize * self.from_step),
                from_step: self.from_step,
                to: self.to.wrapping_offset(col as isize * self.to_step).wrapping_add(start * size),
                to_step: size as isize,
            };
            line.copy::<T>(self.inner - start);
        }
    }
}

/// Transposes elements of type `T` by squares that fit into registers, inside squares of `SIDE`.
///
/// # Safety
/// The processor must have AVX2. All elements of both sides must be accessible, and the sides must not overlap.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub unsafe fn transpose_in_registers<T: RegisterTranspose, const SIDE: usize>(transpose: Transpose) {
    let size = size_of::<T>();
    let [inner, outer] = [transpose.inner / T::EDGE * T::EDGE, transpose.outer / T::EDGE * T::EDGE];
    for first_row in (0..inner).step_by(SIDE) {
        for first_col in (0..outer).step_by(SIDE) {
            // The target's lines are completed one after the other.
            for col in (first_col..outer.min(first_col + SIDE)).step_by(T::EDGE) {
                for row in (first_row..inner.min(first_row + SIDE)).step_by(T::EDGE) {
                    let from = transpose.from.wrapping_offset(row as isize * transpose.from_step).wrapping_add(col * size);
                    let to = transpose.to.wrapping_offset(col as isize * transpose.to_step).wrapping_add(row * size);
                    let squares = (Square { data: from, step: transpose.from_step }, Square { data: to, step: transpose.to_step });
                    // SAFETY: the caller's promise; the squares are inside the matrix.
                    unsafe { T::transpose(squares.0, squares.1) };
                }
            }
        }
    }
    transpose.rest::<T>(inner, outer);
}

/// Transposes elements of type `T` in squares of `EDGE`.
pub struct Squares<T, const EDGE: usize> {
    transpose: Transpose,
    element: std::marker::PhantomData<T>,
}

impl<T, const EDGE: usize> Squares<T, EDGE> {
    /// # Safety
    /// All elements of both sides must be accessible, and the sides must not overlap.
    pub unsafe fn new(transpose: Transpose) -> Self {
        Self { transpose, element: std::marker::PhantomData }
    }
}

impl<T: Copy + Default, const EDGE: usize> Leaf for Squares<T, EDGE> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (transpose, size) = (self.transpose, size_of::<T>());
        let [inner, outer] = [transpose.inner, transpose.outer].map(|count| count / EDGE * EDGE);
        for row in (0..inner).step_by(EDGE) {
            for col in (0..outer).step_by(EDGE) {
                let from = transpose.from.wrapping_offset(row as isize * transpose.from_step).wrapping_add(col * size);
                let to = transpose.to.wrapping_offset(col as isize * transpose.to_step).wrapping_add(row * size);
                square::<T, EDGE>(from, transpose.from_step, to, transpose.to_step);
            }
        }
        transpose.rest::<T>(inner, outer);
    }
}

#[inline(always)]
fn square<T: Copy + Default, const EDGE: usize>(from: *const u8, from_step: isize, to: *mut u8, to_step: isize) {
    let mut square = [[T::default(); EDGE]; EDGE];
    for (row, line) in square.iter_mut().enumerate() {
        // SAFETY: the caller of `Squares::new` promises the elements; the square is inside the matrix.
        *line = unsafe { from.wrapping_offset(row as isize * from_step).cast::<[T; EDGE]>().read_unaligned() };
    }
    for col in 0..EDGE {
        let mut line = [T::default(); EDGE];
        for (value, row) in line.iter_mut().zip(&square) {
            *value = row[col];
        }
        // SAFETY: as above.
        unsafe { to.wrapping_offset(col as isize * to_step).cast::<[T; EDGE]>().write_unaligned(line) };
    }
}
