//! The register tile of [`super::blocked`], with AVX-512 and its products of bfloat16.
//!
//! A *lane* is four bytes: one f32, or two adjacent bf16 along the summed dimension, whose products `vdpbf16ps` adds to an f32. The
//! code uses intrinsics because the compiler does not generate `vdpbf16ps` otherwise, and to keep the sums in registers.

use std::arch::x86_64::{
    __m256bh, __m256i, __m512, __m512bh, __m512i, __mmask16, _mm256_mask_storeu_epi16, _mm256_maskz_loadu_epi16, _mm512_add_ps,
    _mm512_castps_si512, _mm512_castsi512_ps, _mm512_cvtepu16_epi32, _mm512_cvtneps_pbh, _mm512_dpbf16_ps, _mm512_fmadd_ps,
    _mm512_loadu_ps, _mm512_loadu_si512, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_mul_ps, _mm512_set1_epi32,
    _mm512_set1_ps, _mm512_setzero_ps, _mm512_slli_epi32, _mm512_storeu_ps,
};

use super::problem::Matrix;
use crate::tensor::Element;

/// Columns of a register.
pub const LANES: usize = 16;
/// Columns of a strip: two registers.
pub const WIDTH: usize = 2 * LANES;
/// Rows of the largest tile: with [`WIDTH`] columns its sums fill 24 of 32 registers.
pub const ROWS: usize = 12;

/// An element type of these products.
pub trait Lane: Element<Acc = f32> {
    const PER_LANE: usize = 4 / size_of::<Self>();

    /// `sums + left * right`, lane by lane.
    ///
    /// # Safety
    /// The processor must have AVX-512 with products of bfloat16.
    unsafe fn fuse(sums: __m512, left: __m512i, right: __m512i) -> __m512;

    /// A lane: an element and, for bf16, the next one in its column. If `is_whole` is false there is no next one, and a zero
    /// replaces it.
    ///
    /// # Safety
    /// The elements must be readable.
    unsafe fn lane(element: Matrix, is_whole: bool) -> u32;

    /// Loads the elements that the mask selects, widened.
    ///
    /// # Safety
    /// As for [`Lane::fuse`], and the selected elements must be readable.
    unsafe fn load_masked(from: *const Self, mask: __mmask16) -> __m512;

    /// Stores the elements that the mask selects, rounded.
    ///
    /// # Safety
    /// As for [`Lane::fuse`], and the selected elements must be writable.
    unsafe fn store_masked(to: *mut Self, mask: __mmask16, values: __m512);
}

impl Lane for f32 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
    unsafe fn fuse(sums: __m512, left: __m512i, right: __m512i) -> __m512 {
        _mm512_fmadd_ps(_mm512_castsi512_ps(left), _mm512_castsi512_ps(right), sums)
    }

    #[inline(always)]
    unsafe fn lane(element: Matrix, _is_whole: bool) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { element.data.cast::<u32>().read_unaligned() }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
    unsafe fn load_masked(from: *const Self, mask: __mmask16) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_maskz_loadu_ps(mask, from) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
    unsafe fn store_masked(to: *mut Self, mask: __mmask16, values: __m512) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_mask_storeu_ps(to, mask, values) };
    }
}

impl Lane for half::bf16 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
    unsafe fn fuse(sums: __m512, left: __m512i, right: __m512i) -> __m512 {
        _mm512_dpbf16_ps(sums, pairs(left), pairs(right))
    }

    #[inline(always)]
    unsafe fn lane(element: Matrix, is_whole: bool) -> u32 {
        // SAFETY: the caller's promise.
        let read = |element: Matrix| u32::from(unsafe { element.data.cast::<u16>().read_unaligned() });
        read(element) | if is_whole { read(element.at(0, 1, 0)) << 16 } else { 0 }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
    unsafe fn load_masked(from: *const Self, mask: __mmask16) -> __m512 {
        // SAFETY: the caller's promise.
        let bits = unsafe { _mm256_maskz_loadu_epi16(mask, from.cast()) };
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(bits)))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
    unsafe fn store_masked(to: *mut Self, mask: __mmask16, values: __m512) {
        let rounded = _mm512_cvtneps_pbh(values);
        // SAFETY: both types are registers of 256 bits, for which every bit pattern is valid.
        let bits = unsafe { std::mem::transmute::<__m256bh, __m256i>(rounded) };
        // SAFETY: the caller's promise.
        unsafe { _mm256_mask_storeu_epi16(to.cast(), mask, bits) };
    }
}

/// Reinterprets the bits as pairs of bf16.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn pairs(bits: __m512i) -> __m512bh {
    // SAFETY: both types are registers of 512 bits, for which every bit pattern is valid.
    unsafe { std::mem::transmute::<__m512i, __m512bh>(bits) }
}

/// Rows at a constant distance in bytes.
#[derive(Clone, Copy)]
pub struct Pitched<P> {
    pub data: P,
    pub step: usize,
}

impl<T> Pitched<*const T> {
    #[inline(always)]
    fn row(self, row: usize) -> *const T {
        self.data.wrapping_byte_add(row * self.step)
    }
}

impl<T> Pitched<*mut T> {
    #[inline(always)]
    fn row(self, row: usize) -> *mut T {
        self.data.wrapping_byte_add(row * self.step)
    }
}

/// The destination of complete sums: `out = alpha * sums + beta * addend`.
#[derive(Clone, Copy)]
pub struct Target<T> {
    pub out: Pitched<*mut T>,
    pub addend: Option<Pitched<*const T>>,
    pub alpha: f32,
    pub beta: f32,
}

/// The operands of a strip, over `depth` lanes of the summed dimension. All pointers point to its first row and column.
#[derive(Clone, Copy)]
pub struct Operands<T> {
    /// Rows of contiguous lanes.
    pub a: Pitched<*const u32>,
    /// Rows of [`WIDTH`] lanes, one row for each lane of the summed dimension.
    pub b: Pitched<*const u32>,
    pub depth: usize,
    /// Partial sums in whole registers. They are added if `adds`, and written if there is no `target`.
    pub sums: Pitched<*mut f32>,
    pub adds: bool,
    /// Given with the last lanes of the summed dimension.
    pub target: Option<Target<T>>,
}

impl<T> Operands<T> {
    fn skip(&mut self, rows: usize) {
        self.a.data = self.a.row(rows);
        self.sums.data = self.sums.row(rows);
        if let Some(target) = &mut self.target {
            target.out.data = target.out.row(rows);
            target.addend = target.addend.map(|addend| Pitched { data: addend.row(rows), ..addend });
        }
    }
}

/// Computes a tile of `R` rows and `C` registers, of which `cols` columns belong to the output.
///
/// # Safety
/// The processor must have AVX-512 with products of bfloat16. The operands must have these rows and columns, and nobody else may
/// use the sums and the output meanwhile.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
#[allow(clippy::needless_range_loop, reason = "the compiler keeps sums in registers where they have numbers")]
unsafe fn tile<T: Lane, const R: usize, const C: usize>(operands: &Operands<T>, cols: usize) {
    let Operands { a, b, depth, sums: partial, adds, target } = *operands;
    let mut sums = [[_mm512_setzero_ps(); C]; R];
    for term in 0..depth {
        let line = b.row(term);
        let mut right = [_mm512_castps_si512(_mm512_setzero_ps()); C];
        for col in 0..C {
            // SAFETY: the caller promises `depth` rows of C registers.
            right[col] = unsafe { _mm512_loadu_si512(line.wrapping_add(col * LANES).cast()) };
        }
        for row in 0..R {
            // SAFETY: the caller promises R rows of `depth` lanes.
            let left = _mm512_set1_epi32(unsafe { a.row(row).wrapping_add(term).cast::<i32>().read_unaligned() });
            for col in 0..C {
                // SAFETY: the caller promises the processor.
                sums[row][col] = unsafe { T::fuse(sums[row][col], left, right[col]) };
            }
        }
    }
    if adds {
        for row in 0..R {
            for col in 0..C {
                // SAFETY: the caller promises R x C registers of sums.
                let before = unsafe { _mm512_loadu_ps(partial.row(row).wrapping_add(col * LANES)) };
                sums[row][col] = _mm512_add_ps(before, sums[row][col]);
            }
        }
    }
    let Some(target) = target else {
        for row in 0..R {
            for col in 0..C {
                // SAFETY: as for reading the sums.
                unsafe { _mm512_storeu_ps(partial.row(row).wrapping_add(col * LANES), sums[row][col]) };
            }
        }
        return;
    };
    for row in 0..R {
        for col in 0..C {
            let first = col * LANES;
            let mask = mask(cols.saturating_sub(first));
            let mut value = _mm512_mul_ps(_mm512_set1_ps(target.alpha), sums[row][col]);
            if let Some(addend) = target.addend {
                // SAFETY: the caller promises R rows of `cols` elements of the addend.
                let own = unsafe { T::load_masked(addend.row(row).wrapping_add(first), mask) };
                value = _mm512_add_ps(value, _mm512_mul_ps(_mm512_set1_ps(target.beta), own));
            }
            // SAFETY: the caller promises R rows of `cols` elements of the output.
            unsafe { T::store_masked(target.out.row(row).wrapping_add(first), mask, value) };
        }
    }
}

/// A mask of the first `count` lanes, at most all.
fn mask(count: usize) -> __mmask16 {
    if count >= LANES { __mmask16::MAX } else { (1 << count) - 1 }
}

/// The rows of a [`tile`], and its function.
type Sized<T> = (usize, unsafe fn(&Operands<T>, usize));

/// The largest tile of at most `rows` rows, with one register or two.
fn largest<T: Lane>(rows: usize, is_wide: bool) -> Sized<T> {
    match (rows, is_wide) {
        (ROWS.., true) => (ROWS, tile::<T, ROWS, 2>),
        (8.., true) => (8, tile::<T, 8, 2>),
        (4.., true) => (4, tile::<T, 4, 2>),
        (2.., true) => (2, tile::<T, 2, 2>),
        (_, true) => (1, tile::<T, 1, 2>),
        (ROWS.., false) => (ROWS, tile::<T, ROWS, 1>),
        (8.., false) => (8, tile::<T, 8, 1>),
        (4.., false) => (4, tile::<T, 4, 1>),
        (2.., false) => (2, tile::<T, 2, 1>),
        (_, false) => (1, tile::<T, 1, 1>),
    }
}

/// Computes `rows` rows and `cols` columns, at most [`WIDTH`], tile by tile.
///
/// # Safety
/// The processor must have AVX-512 with products of bfloat16. The operands must have these rows and columns, and nobody else may
/// use the sums and the output meanwhile.
pub unsafe fn strip<T: Lane>(mut operands: Operands<T>, rows: usize, cols: usize) {
    let mut rest = rows;
    while rest > 0 {
        let (count, tile) = largest::<T>(rest, cols > LANES);
        // SAFETY: the caller's promise.
        unsafe { tile(&operands, cols) };
        operands.skip(count);
        rest -= count;
    }
}
