//! Products of 8 bit integers with sums of 32 bits.
//!
//! Both operands are widened to 16 bits; two adjacent terms are a number of 32 bits, whose products the processor adds.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_set1_epi32, _mm256_setzero_si256, _mm256_storeu_si256,
};

use super::{DEPTH, check, int_mm};
use crate::tensor::prelude::*;

/// Columns of a strip, and of a tile.
const STRIP: usize = 32;
const COLUMNS: usize = 16;
/// Rows of a tile: with [`COLUMNS`] its sums fill half of AVX2's registers.
const ROWS: usize = 4;
/// Nanoseconds of one thread for a multiply-add, and for an element of an operand.
const PRODUCT: f64 = 0.01;
const ELEMENT: f64 = 0.2;

/// Nanoseconds of one thread for a product.
pub fn cost(launch: &Launch<'_>) -> u64 {
    let terms = launch.sizes(1).get(1).copied().unwrap_or(0) as f64;
    (launch.numel(0) as f64 * terms * PRODUCT + (launch.numel(1) + launch.numel(2)) as f64 * ELEMENT) as u64
}

pub fn product(launch: &Launch<'_>) -> Result<(), Error> {
    let int_mm::Operands { mut out, a, columns } = int_mm::Operands::of(launch)?;
    check(out.ndim() == 2 && a.ndim() == 2 && columns.ndim() == 2, "dimensions")?;
    let [m, n, k] = [a.size(0), columns.size(0), a.size(1)];
    check(out.sizes() == [m as i64, n as i64] && columns.size(1) == k, "columns")?;
    if m * n == 0 {
        return Ok(());
    }
    if k == 0 {
        (0..m).for_each(|row| out.row_mut(&[row]).zero(0, n));
        return Ok(());
    }
    // Pairs of terms of a block, and of all blocks.
    let (depth, all) = (DEPTH.min(k.div_ceil(2)), k.div_ceil(2));
    let mut memory = Memory::of(m * all * size_of::<i32>());
    let pairs_of_a: &mut [i32] = memory.numbers(m * all);
    if a.dtype() == DType::Byte {
        a.elements::<u8>()?.chunks_exact(k).zip(pairs_of_a.chunks_exact_mut(all)).for_each(|(row, to)| pairs(row, to));
    } else {
        a.elements::<i8>()?.chunks_exact(k).zip(pairs_of_a.chunks_exact_mut(all)).for_each(|(row, to)| pairs(row, to));
    }
    let (a, columns) = (&*pairs_of_a, columns.elements::<i8>()?);
    out.in_blocks(1, STRIP, k as f64 * (m as f64 * PRODUCT + ELEMENT), &|begin, end, mut out| {
        let mut memory = Memory::of((2 * depth + m) * STRIP * size_of::<i32>());
        let (panels, sums) = memory.numbers::<i32>((2 * depth + m) * STRIP).split_at_mut(2 * depth * STRIP);
        let (rows, panel) = panels.split_at_mut(depth * STRIP);
        for first in (0..all).step_by(depth) {
            let depth = depth.min(all - first);
            let (rows, panel) = (&mut rows[..depth * STRIP], &mut panel[..depth * STRIP]);
            for (column, row) in (begin..end).zip(rows.chunks_exact_mut(depth)) {
                pairs(&columns[column * k..][2 * first..k.min(2 * (first + depth))], row);
            }
            strided::transpose(rows, panel, depth);
            for column in (0..end - begin).step_by(COLUMNS) {
                let mut row = 0;
                while row < m {
                    let (a, sums) = (&a[row * all + first..], &mut sums[row * STRIP + column..]);
                    row += match m - row {
                        ROWS.. => tile::<ROWS>(a, all, &panel[column..], depth, sums, first > 0),
                        _ => tile::<1>(a, all, &panel[column..], depth, sums, first > 0),
                    };
                }
            }
        }
        for (row, sums) in sums.chunks_exact(STRIP).enumerate() {
            let mut row = out.row_mut(&[row]);
            (0..end - begin).for_each(|column| row.store(column, sums[column]));
        }
    });
    Ok(())
}

/// Elements of 8 bits.
trait Octet: Element + Into<i16> {}
impl Octet for i8 {}
impl Octet for u8 {}

leaf! {
    /// Makes pairs of adjacent elements; behind the last one is a zero.
    fn pairs<T: Octet>(elements: &[T], pairs: &mut [i32]) {
        let (whole, rest) = elements.as_chunks::<2>();
        for (pair, &[low, high]) in pairs.iter_mut().zip(whole) {
            *pair = i32::from(low.into() as u16) | i32::from(high.into()) << 16;
        }
        if let (Some(pair), &[last]) = (pairs.get_mut(whole.len()), rest) {
            *pair = i32::from(last.into() as u16);
        }
    }
}

/// Computes `R` rows and [`COLUMNS`] columns of sums, or adds to them, over `depth` pairs; returns `R`. Rows of a are `pitch` pairs
/// apart, lines of the panel and rows of sums [`STRIP`].
fn tile<const R: usize>(a: &[i32], pitch: usize, panel: &[i32], depth: usize, sums: &mut [i32], adds: bool) -> usize {
    assert!((R - 1) * pitch + depth <= a.len() && (depth - 1) * STRIP + COLUMNS <= panel.len());
    assert!((R - 1) * STRIP + COLUMNS <= sums.len());
    #[cfg(target_arch = "x86_64")]
    if simd::isa() != Isa::Portable {
        // SAFETY: the processor has AVX2, and the assertions have checked the sizes.
        unsafe { avx2::<R>(a.as_ptr(), pitch, panel.as_ptr(), depth, sums.as_mut_ptr(), adds) };
        return R;
    }
    for row in 0..R {
        let sums = &mut sums[row * STRIP..][..COLUMNS];
        if !adds {
            sums.fill(0);
        }
        for (&left, line) in a[row * pitch..][..depth].iter().zip(panel.chunks(STRIP)) {
            for (sum, &right) in sums.iter_mut().zip(line) {
                let [low, high] = [i32::from(left as i16) * i32::from(right as i16), (left >> 16) * (right >> 16)];
                *sum = sum.wrapping_add(low.wrapping_add(high));
            }
        }
    }
    R
}

/// [`tile`] by the instruction that multiplies pairs and adds their products.
///
/// # Safety
/// The processor must have AVX2, and the operands and sums must have the sizes that [`tile`] checks.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[allow(clippy::needless_range_loop, reason = "the rows and registers of all arrays are numbered alike")]
unsafe fn avx2<const R: usize>(a: *const i32, pitch: usize, panel: *const i32, depth: usize, sums: *mut i32, adds: bool) {
    const LANES: usize = 8;
    let mut totals = [[_mm256_setzero_si256(); COLUMNS / LANES]; R];
    let at = |row: usize, register: usize| sums.wrapping_add(row * STRIP + register * LANES).cast::<__m256i>();
    if adds {
        for row in 0..R {
            for register in 0..COLUMNS / LANES {
                // SAFETY: `R` rows of sums, as the caller promises.
                totals[row][register] = unsafe { _mm256_loadu_si256(at(row, register)) };
            }
        }
    }
    for index in 0..depth {
        let mut terms = [_mm256_setzero_si256(); COLUMNS / LANES];
        for register in 0..COLUMNS / LANES {
            // SAFETY: `depth` lines of the panel, as the caller promises.
            terms[register] = unsafe { _mm256_loadu_si256(panel.wrapping_add(index * STRIP + register * LANES).cast()) };
        }
        for row in 0..R {
            // SAFETY: `depth` pairs of `R` rows of a, as the caller promises.
            let factor = _mm256_set1_epi32(unsafe { a.wrapping_add(row * pitch + index).read() });
            for register in 0..COLUMNS / LANES {
                totals[row][register] = _mm256_add_epi32(totals[row][register], _mm256_madd_epi16(terms[register], factor));
            }
        }
    }
    for row in 0..R {
        for register in 0..COLUMNS / LANES {
            // SAFETY: `R` rows of sums, as the caller promises.
            unsafe { _mm256_storeu_si256(at(row, register), totals[row][register]) };
        }
    }
}
