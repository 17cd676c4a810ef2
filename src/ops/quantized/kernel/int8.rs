//! Weights of 8 bits with a scale for each row.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256, _mm_loadl_epi64, _mm256_cvtepi8_epi32, _mm256_cvtepi32_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_setzero_ps,
    _mm256_storeu_ps,
};
use std::ops::Range;

use super::{Narrow, Weights, check, product as multiply, weight_int8pack_mm, widen};
use crate::ops::matmul::kernel::Entry;
use crate::tensor::prelude::*;

/// Partial sums of a dot product, in registers of AVX2.
const LANES: usize = 16;
const REGISTER: usize = 8;

struct Int8<'a> {
    weights: &'a [i8],
    scales: &'a [f32],
    k: usize,
}

pub fn product<E: Narrow>(launch: &Launch<'_>) -> Result<(), Error> {
    let weight_int8pack_mm::Operands { out, x, weights, scales } = weight_int8pack_mm::Operands::of(launch)?;
    let (weights, scales, k) =
        (weights.elements::<i8>()?, scales.elements::<E>()?, x.sizes().last().map_or(0, |&size| size as usize));
    let n = out.sizes().last().map_or(0, |&size| size as usize);
    check(weights.len() == n * k && scales.len() == n, "weights")?;
    let mut memory = Memory::of(n * size_of::<f32>());
    let numbers = memory.numbers(n);
    widen(scales, numbers);
    multiply::<E, _>(out, &x, &Int8 { weights, scales: numbers, k })
}

impl Weights for Int8<'_> {
    const FEW: usize = 4;

    fn strip(&self) -> usize {
        32
    }

    fn multiply(&self, columns: Range<usize>, x: &[f32], pitch: usize, sums: &mut [f32]) {
        let weights = &self.weights[columns.start * self.k..columns.end * self.k];
        let mut rows = x.chunks_exact(self.k).zip(sums.chunks_exact_mut(pitch));
        while let Some((first, sums)) = rows.next() {
            match rows.next() {
                Some((second, others)) => dots::<2, 2>([first, second], weights, [sums, others]),
                None => dots::<1, 4>([first], weights, [sums]),
            }
        }
    }

    fn widen(&self, columns: Range<usize>, terms: Range<usize>, pitch: usize, lines: &mut [f32]) {
        let depth = terms.len();
        let mut memory = Memory::of(depth * pitch * size_of::<f32>());
        let rows = memory.numbers(depth * pitch);
        for (column, row) in columns.zip(rows.chunks_exact_mut(depth)) {
            of_f32(&self.weights[column * self.k..][terms.clone()], row);
        }
        strided::transpose(rows, &mut lines[..depth * pitch], depth);
    }

    fn scales(&self, columns: Range<usize>) -> Option<&[f32]> {
        Some(&self.scales[columns])
    }
}

leaf! {
    fn of_f32(weights: &[i8], numbers: &mut [f32]) {
        for (number, &weight) in numbers.iter_mut().zip(weights) {
            *number = f32::from(weight);
        }
    }
}

/// Dot products of `R` rows of x and all rows of weights, `C` of them together. The bits of each do not depend on `R` and `C`.
fn dots<const R: usize, const C: usize>(x: [&[f32]; R], weights: &[i8], mut sums: [&mut [f32]; R]) {
    let k = x[0].len();
    let (together, rest) = weights.split_at(weights.len() / (C * k) * (C * k));
    for (index, weights) in together.chunks_exact(C * k).enumerate() {
        for (sums, found) in sums.iter_mut().zip(few_dots::<R, C>(&x, weights)) {
            sums[index * C..][..C].copy_from_slice(&found);
        }
    }
    for (column, weights) in (together.len() / k..).zip(rest.chunks_exact(k)) {
        for (sums, [found]) in sums.iter_mut().zip(few_dots::<R, 1>(&x, weights)) {
            sums[column] = found;
        }
    }
}

/// Dot products of `R` rows of x and `C` rows of weights.
fn few_dots<const R: usize, const C: usize>(x: &[&[f32]; R], weights: &[i8]) -> [[f32; C]; R] {
    let k = x[0].len();
    assert!(x.iter().all(|row| row.len() == k) && weights.len() == C * k);
    let whole = k / LANES * LANES;
    let mut lanes = [[[0f32; LANES]; C]; R];
    #[cfg(target_arch = "x86_64")]
    if simd::isa() == Isa::Portable {
        portable(x, weights, k, whole, &mut lanes);
    } else {
        // SAFETY: the processor has AVX2, and the assertion has checked the sizes; `whole` does not exceed them.
        unsafe { avx2(&x.map(<[f32]>::as_ptr), weights.as_ptr(), k, whole, &mut lanes) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    portable(x, weights, k, whole, &mut lanes);
    let mut sums = [[0f32; C]; R];
    for row in 0..R {
        for column in 0..C {
            let rest = x[row][whole..].iter().zip(&weights[column * k + whole..]);
            for (sum, (&factor, &weight)) in lanes[row][column].iter_mut().zip(rest) {
                *sum = f32::fuse(f32::from(weight), factor, *sum);
            }
            sums[row][column] = across(lanes[row][column], |left, right| left + right);
        }
    }
    sums
}

/// Partial sums of the first `whole` terms.
fn portable<const R: usize, const C: usize>(
    x: &[&[f32]; R],
    weights: &[i8],
    k: usize,
    whole: usize,
    lanes: &mut [[[f32; LANES]; C]; R],
) {
    for (x, lanes) in x.iter().zip(lanes) {
        for (weights, lanes) in weights.chunks_exact(k).zip(lanes) {
            for (factors, weights) in x[..whole].as_chunks::<LANES>().0.iter().zip(weights.as_chunks::<LANES>().0) {
                for lane in 0..LANES {
                    lanes[lane] = f32::fuse(f32::from(weights[lane]), factors[lane], lanes[lane]);
                }
            }
        }
    }
}

/// [`portable`] with AVX2. The code uses intrinsics because the compiler makes vectors across rows and columns.
///
/// # Safety
/// The processor must have AVX2. There must be `whole` numbers at each of x, `C` rows of `k` weights, and `whole` must be a multiple of
/// [`LANES`] that does not exceed `k`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
#[allow(clippy::needless_range_loop, reason = "the rows, columns and registers of all arrays are numbered alike")]
unsafe fn avx2<const R: usize, const C: usize>(
    x: &[*const f32; R],
    weights: *const i8,
    k: usize,
    whole: usize,
    lanes: &mut [[[f32; LANES]; C]; R],
) {
    let mut sums: [[[__m256; LANES / REGISTER]; C]; R] = [[[_mm256_setzero_ps(); LANES / REGISTER]; C]; R];
    for first in (0..whole).step_by(LANES) {
        for part in 0..LANES / REGISTER {
            let at = first + part * REGISTER;
            let mut factors = [_mm256_setzero_ps(); R];
            for row in 0..R {
                // SAFETY: `whole` numbers, as the caller promises.
                factors[row] = unsafe { _mm256_loadu_ps(x[row].wrapping_add(at)) };
            }
            for column in 0..C {
                // SAFETY: `C` rows of `k` weights, as the caller promises.
                let bytes = unsafe { _mm_loadl_epi64(weights.wrapping_add(column * k + at).cast()) };
                let weights = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
                for row in 0..R {
                    sums[row][column][part] = _mm256_fmadd_ps(weights, factors[row], sums[row][column][part]);
                }
            }
        }
    }
    for row in 0..R {
        for column in 0..C {
            for (part, lanes) in lanes[row][column].as_chunks_mut::<REGISTER>().0.iter_mut().enumerate() {
                // SAFETY: a register of lanes.
                unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), sums[row][column][part]) };
            }
        }
    }
}
