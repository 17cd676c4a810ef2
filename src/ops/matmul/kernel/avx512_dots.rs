//! Dot products of f32 and 16 bit floats on processors with AVX-512 and its products of bfloat16.

use std::arch::x86_64::{
    __m512, __m512bh, __mmask16, __mmask32, _mm512_castsi512_si256, _mm512_cvtph_ps, _mm512_dpbf16_ps, _mm512_extracti64x4_epi64,
    _mm512_fmadd_ps, _mm512_maskz_loadu_epi16, _mm512_maskz_loadu_ps, _mm512_reduce_add_ps, _mm512_setzero_ps,
};

use half::{bf16, f16};

use super::avx512_tile::pairs;
use super::blocked::LEAST;
use super::skinny::{Entry, Strip};
use crate::simd;

/// Elements that are multiplied together.
const LANES: usize = 32;
/// Columns whose sums are computed together, to hide the latency of the additions.
const COLUMNS: usize = 4;
/// Registers of each sum.
const PARTS: usize = 2;

/// An element type of these dot products.
pub trait Term: Entry<Acc = f32> {
    /// [`LANES`] elements in the form that [`Term::fuse`] takes.
    type Factors: Copy;

    /// Loads the elements that the mask selects, and zeros for the others.
    ///
    /// # Safety
    /// The processor must have AVX-512 with products of bfloat16, and the selected elements must be readable.
    unsafe fn factors(from: *const Self, mask: __mmask32) -> Self::Factors;

    /// `sums + left * right`.
    ///
    /// # Safety
    /// The processor must have AVX-512 with products of bfloat16.
    unsafe fn fuse(sums: __m512, left: Self::Factors, right: Self::Factors) -> __m512;
}

impl Term for bf16 {
    type Factors = __m512bh;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn factors(from: *const Self, mask: __mmask32) -> __m512bh {
        // SAFETY: the caller's promise.
        pairs(unsafe { _mm512_maskz_loadu_epi16(mask, from.cast()) })
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn fuse(sums: __m512, left: __m512bh, right: __m512bh) -> __m512 {
        _mm512_dpbf16_ps(sums, left, right)
    }
}

impl Term for f16 {
    type Factors = [__m512; 2];

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn factors(from: *const Self, mask: __mmask32) -> [__m512; 2] {
        // SAFETY: the caller's promise.
        let bits = unsafe { _mm512_maskz_loadu_epi16(mask, from.cast()) };
        [_mm512_cvtph_ps(_mm512_castsi512_si256(bits)), _mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(bits))]
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn fuse(sums: __m512, left: [__m512; 2], right: [__m512; 2]) -> __m512 {
        _mm512_fmadd_ps(left[1], right[1], _mm512_fmadd_ps(left[0], right[0], sums))
    }
}

impl Term for f32 {
    type Factors = [__m512; 2];

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn factors(from: *const Self, mask: __mmask32) -> [__m512; 2] {
        // SAFETY: the caller's promise.
        let first = unsafe { _mm512_maskz_loadu_ps(mask as __mmask16, from) };
        // SAFETY: as above.
        [first, unsafe { _mm512_maskz_loadu_ps((mask >> 16) as __mmask16, from.wrapping_add(16)) }]
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn fuse(sums: __m512, left: [__m512; 2], right: [__m512; 2]) -> __m512 {
        _mm512_fmadd_ps(left[1], right[1], _mm512_fmadd_ps(left[0], right[0], sums))
    }
}

/// Computes the strip, whose rows of a and columns of b are contiguous, and returns true, if the processor has the instructions and
/// `work` multiply-adds are enough for them.
pub fn run<T: Term>(strip: &Strip<T>, work: usize) -> bool {
    let takes = work > LEAST && simd::has_bfloat16_products();
    if takes {
        // SAFETY: the condition has checked that the processor has the instructions.
        unsafe { all(strip) };
    }
    takes
}

#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn all<T: Term>(strip: &Strip<T>) {
    let whole = strip.cols / COLUMNS * COLUMNS;
    for row in 0..strip.rows {
        for col in (0..whole).step_by(COLUMNS) {
            dots::<T, COLUMNS>(strip, row, col);
        }
        for col in whole..strip.cols {
            dots::<T, 1>(strip, row, col);
        }
    }
}

/// `C` dot products of a row. The bits of each do not depend on `C`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn dots<T: Term, const C: usize>(strip: &Strip<T>, row: usize, col: usize) {
    let left = strip.a.at(0, row, 0).data.cast_const();
    let right: [*const u8; C] = std::array::from_fn(|beside| strip.b.at(0, 0, col + beside).data.cast_const());
    let mut sums = [[_mm512_setzero_ps(); PARTS]; C];
    let whole = strip.depth / (LANES * PARTS) * (LANES * PARTS);
    for index in (0..whole).step_by(LANES * PARTS) {
        for part in 0..PARTS {
            add::<T, C>(&mut sums, part, (left, &right), index + part * LANES, __mmask32::MAX);
        }
    }
    for index in (whole..strip.depth).step_by(LANES) {
        let rest = strip.depth - index;
        add::<T, C>(&mut sums, 0, (left, &right), index, if rest < LANES { (1 << rest) - 1 } else { __mmask32::MAX });
    }
    for (beside, [first, second]) in sums.into_iter().enumerate() {
        strip.finish(row, col + beside, _mm512_reduce_add_ps(first) + _mm512_reduce_add_ps(second));
    }
}

/// Adds the products of one register of elements, those that the mask selects.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
#[allow(clippy::needless_range_loop, reason = "the compiler keeps sums in registers where they have numbers")]
fn add<T: Term, const C: usize>(
    sums: &mut [[__m512; PARTS]; C],
    part: usize,
    (left, right): (*const u8, &[*const u8; C]),
    index: usize,
    mask: __mmask32,
) {
    let read = |line: *const u8| {
        // SAFETY: the processor has this function's target features. The selected elements lie inside a row of a or a column of b,
        // as `dots` stays below `depth`.
        unsafe { T::factors(line.cast::<T>().wrapping_add(index), mask) }
    };
    let factors = read(left);
    for beside in 0..C {
        // SAFETY: the processor has the instructions.
        sums[beside][part] = unsafe { <T as Term>::fuse(sums[beside][part], factors, read(right[beside])) };
    }
}
