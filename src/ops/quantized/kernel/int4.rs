//! Weights of 4 bits with a scale and an offset for each group of terms of a row.
//!
//! The layout is that of PyTorch's CPU kernel. Rows of weights are packed in blocks of four registers; a block has a line of bytes
//! for each term. With AVX2 and AVX-512 the low halves of a line's bytes are the first half of the block's rows, the high halves
//! the second. Blocks of fewer rows, and all blocks elsewhere, have two adjacent rows in a byte.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256, _mm_loadl_epi64, _mm256_add_ps, _mm256_and_si256, _mm256_broadcast_ss, _mm256_cvtepi32_ps, _mm256_cvtepu8_epi32,
    _mm256_fmadd_ps, _mm256_set1_epi32, _mm256_setzero_ps, _mm256_srli_epi32, _mm256_storeu_ps,
};
use std::ops::Range;

use super::{Narrow, Weights, check, convert_weight_to_int4pack, product as multiply, weight_int4pack_mm};
use crate::ops::matmul::kernel::Entry;
use crate::tensor::prelude::*;

/// Rows of weights of a whole block.
fn block() -> usize {
    if simd::isa() == Isa::Avx512 { 64 } else { 32 }
}

/// True if a byte of a block has rows of both halves of the block, not adjacent rows.
fn is_halved(rows: usize) -> bool {
    rows == block() && simd::isa() != Isa::Portable
}

pub fn pack(launch: &Launch<'_>) -> Result<(), Error> {
    let convert_weight_to_int4pack::Operands { out, weights } = convert_weight_to_int4pack::Operands::of(launch)?;
    check(weights.ndim() == 2 && weights.size(0).is_multiple_of(16) && weights.size(1).is_multiple_of(2), "weights")?;
    let (k, weights) = (weights.size(1), weights.elements::<i32>()?);
    check(out.numel() * 2 == weights.len(), "packed weights")?;
    if weights.is_empty() {
        return Ok(());
    }
    out.in_blocks(0, block(), k as f64, &|begin, end, out| {
        let rows = end - begin;
        let Some(bytes) = out.into_flat().ok().and_then(RowMut::into_slice::<u8>) else { return };
        let weights = &weights[begin * k..end * k];
        for (term, line) in bytes.chunks_exact_mut(rows / 2).enumerate() {
            for (at, byte) in line.iter_mut().enumerate() {
                let [low, high] = if is_halved(rows) { [at, at + rows / 2] } else { [2 * at, 2 * at + 1] };
                *byte = (weights[high * k + term] << 4) as u8 | weights[low * k + term] as u8;
            }
        }
    });
    Ok(())
}

struct Int4<'a, E> {
    packed: &'a [u8],
    /// Scale and offset of each row of weights, for each group of terms.
    parameters: &'a [E],
    n: usize,
    k: usize,
    group: usize,
}

pub fn product<E: Narrow>(launch: &Launch<'_>) -> Result<(), Error> {
    let weight_int4pack_mm::Operands { out, x, packed, parameters } = weight_int4pack_mm::Operands::of(launch)?;
    let group = weight_int4pack_mm::Scalars::of(launch)?.group.to::<i64>() as usize;
    let [n, k] = [&out, &x].map(|view| view.sizes().last().map_or(0, |&size| size as usize));
    let (packed, parameters) = (packed.elements::<u8>()?, parameters.elements::<E>()?);
    let fits = n.is_multiple_of(16) && packed.len() * 2 == n * k && group > 0 && group.is_multiple_of(2) && k.is_multiple_of(group);
    check(fits && parameters.len() == k / group * n * 2, "weights")?;
    multiply::<E, _>(out, &x, &Int4 { packed, parameters, n, k, group })
}

impl<E: Narrow> Int4<'_, E> {
    /// The lines of some terms of a block.
    fn lines(&self, columns: &Range<usize>, terms: Range<usize>) -> &[u8] {
        let half = columns.len() / 2;
        &self.packed[columns.start * self.k / 2..][terms.start * half..terms.end * half]
    }

    /// The scales and offsets of a block, for the group of a term.
    fn parameters(&self, columns: &Range<usize>, term: usize) -> &[E] {
        &self.parameters[(term / self.group * self.n + columns.start) * 2..][..columns.len() * 2]
    }

    /// Adds the products of `R` rows of x to the sums of a block, group by group.
    fn add<const R: usize>(&self, x: [&[f32]; R], columns: &Range<usize>, mut sums: [&mut [f32]; R]) {
        for first in (0..self.k).step_by(self.group) {
            let x = x.map(|row| &row[first..first + self.group]);
            let products = products(&x, self.lines(columns, first..first + self.group), columns.len());
            let parameters = self.parameters(columns, first);
            for (row, sums) in sums.iter_mut().enumerate() {
                finish(&products[row], total(x[row]), parameters, &mut sums[..columns.len()]);
            }
        }
    }
}

impl<E: Narrow> Weights for Int4<'_, E> {
    const FEW: usize = 6;

    fn strip(&self) -> usize {
        block()
    }

    fn multiply(&self, columns: Range<usize>, x: &[f32], pitch: usize, sums: &mut [f32]) {
        sums.fill(0.0);
        let mut rows = x.chunks_exact(self.k).zip(sums.chunks_exact_mut(pitch));
        while let Some((first, sums)) = rows.next() {
            match rows.next() {
                Some((second, others)) => self.add([first, second], &columns, [sums, others]),
                None => self.add([first], &columns, [sums]),
            }
        }
    }

    fn widen(&self, columns: Range<usize>, terms: Range<usize>, pitch: usize, lines: &mut [f32]) {
        let mut first = terms.start;
        let mut rest = lines;
        while first < terms.end {
            let last = terms.end.min((first / self.group + 1) * self.group);
            let (numbers, after) = rest.split_at_mut((last - first) * pitch);
            let parameters = self.parameters(&columns, first);
            widen(self.lines(&columns, first..last), parameters, pitch, numbers);
            (first, rest) = (last, after);
        }
    }

    fn scales(&self, _columns: Range<usize>) -> Option<&[f32]> {
        None
    }
}

/// Columns of the largest block.
const MOST_COLUMNS: usize = 64;
/// Columns of a register of AVX2.
const REGISTER: usize = 8;

/// Multiplies the terms of a group, an even number of them, by their lines, and adds the products up for each column of a block.
fn products<const R: usize>(x: &[&[f32]; R], lines: &[u8], columns: usize) -> [[f32; MOST_COLUMNS]; R] {
    let (mut products, bytes) = ([[0f32; MOST_COLUMNS]; R], columns / 2);
    assert!(x.iter().all(|row| row.len() * bytes == lines.len()) && bytes.is_multiple_of(REGISTER) && columns <= MOST_COLUMNS);
    #[cfg(target_arch = "x86_64")]
    if simd::isa() != Isa::Portable {
        let (terms, x) = (lines.len() / bytes, x.map(<[f32]>::as_ptr));
        for at in (0..bytes / (2 * REGISTER) * 2 * REGISTER).step_by(2 * REGISTER) {
            // SAFETY: the processor has AVX2; the assertion has checked the lines and terms, and the registers lie inside a line.
            unsafe { avx2::<R, 2>(&x, terms, (lines.as_ptr(), bytes), at, &mut products) };
        }
        if !bytes.is_multiple_of(2 * REGISTER) {
            // SAFETY: as above.
            unsafe { avx2::<R, 1>(&x, terms, (lines.as_ptr(), bytes), bytes - REGISTER, &mut products) };
        }
        for products in &mut products {
            put_in_order(&mut products[..columns]);
        }
        return products;
    }
    for (x, products) in x.iter().zip(&mut products) {
        let (low, high) = products[..columns].split_at_mut(bytes);
        for (&factor, line) in x.iter().zip(lines.chunks_exact(bytes)) {
            for ((&byte, low), high) in line.iter().zip(&mut *low).zip(&mut *high) {
                *low = f32::fuse(f32::from(byte & 15), factor, *low);
                *high = f32::fuse(f32::from(byte >> 4), factor, *high);
            }
        }
        put_in_order(&mut products[..columns]);
    }
    products
}

/// Puts numbers of the low halves of a line's bytes, and then of the high halves, in the order of the block's columns.
fn put_in_order(numbers: &mut [f32]) {
    if !is_halved(numbers.len()) {
        let (mut halves, columns) = ([0f32; MOST_COLUMNS], numbers.len());
        halves[..columns].copy_from_slice(numbers);
        for (at, pair) in numbers.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            *pair = [halves[at], halves[columns / 2 + at]];
        }
    }
}

/// [`products`] of `C` registers of bytes from position `at` of the lines on. The code uses intrinsics because the compiler makes
/// vectors across terms and columns.
///
/// # Safety
/// The processor must have AVX2. There must be `terms` numbers at each of x, an even number of them, and as many lines; `C` registers from
/// `at` on must lie inside a line.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
#[allow(clippy::needless_range_loop, reason = "the rows, registers and parts of all arrays are numbered alike")]
unsafe fn avx2<const R: usize, const C: usize>(
    x: &[*const f32; R],
    terms: usize,
    (lines, bytes): (*const u8, usize),
    at: usize,
    products: &mut [[f32; MOST_COLUMNS]; R],
) {
    // Even and odd terms have sums of their own, to hide the latency of the additions.
    let mut sums: [[[[__m256; 2]; C]; R]; 2] = [[[[_mm256_setzero_ps(); 2]; C]; R]; 2];
    let mask = _mm256_set1_epi32(15);
    for first in (0..terms).step_by(2) {
        for part in 0..2 {
            let term = first + part;
            let mut factors = [_mm256_setzero_ps(); R];
            for row in 0..R {
                // SAFETY: `terms` numbers, as the caller promises.
                factors[row] = _mm256_broadcast_ss(unsafe { &*x[row].wrapping_add(term) });
            }
            for register in 0..C {
                // SAFETY: the register lies inside a line, as the caller promises.
                let line = unsafe { _mm_loadl_epi64(lines.wrapping_add(term * bytes + at + register * REGISTER).cast()) };
                let line = _mm256_cvtepu8_epi32(line);
                let low = _mm256_cvtepi32_ps(_mm256_and_si256(line, mask));
                let high = _mm256_cvtepi32_ps(_mm256_srli_epi32::<4>(line));
                let of = if R > 1 { 0 } else { part };
                for row in 0..R {
                    let sums = &mut sums[of][row][register];
                    sums[0] = _mm256_fmadd_ps(low, factors[row], sums[0]);
                    sums[1] = _mm256_fmadd_ps(high, factors[row], sums[1]);
                }
            }
        }
    }
    for row in 0..R {
        for register in 0..C {
            for half in 0..2 {
                let sum = _mm256_add_ps(sums[0][row][register][half], sums[1][row][register][half]);
                let to = &mut products[row][half * bytes + at + register * REGISTER..][..REGISTER];
                // SAFETY: `to` has a register's numbers.
                unsafe { _mm256_storeu_ps(to.as_mut_ptr(), sum) };
            }
        }
    }
}

leaf! {
    /// The sum of the terms of a group.
    fn total(x: &[f32]) -> f32 {
        let mut lanes = [0f32; 2 * REGISTER];
        let (whole, rest) = x.as_chunks::<{ 2 * REGISTER }>();
        for terms in whole {
            for (lane, term) in lanes.iter_mut().zip(terms) {
                *lane += term;
            }
        }
        across(lanes, |left, right| left + right) + rest.iter().sum::<f32>()
    }

    /// Scales the products of a group of terms, whose sum is `total`, and adds them to the sums of a block.
    fn finish<E: Narrow>(products: &[f32], total: f32, parameters: &[E], sums: &mut [f32]) {
        let mut numbers = [0f32; 2 * MOST_COLUMNS];
        E::load_run(parameters, &mut numbers);
        for ((sum, product), [scale, offset]) in sums.iter_mut().zip(products).zip(numbers.as_chunks::<2>().0) {
            *sum = f32::fuse(*offset, total, f32::fuse(*scale, f32::fuse(-8.0, total, *product), *sum));
        }
    }

    /// Widens lines of terms of one group, of `columns` numbers each.
    fn widen<E: Narrow>(lines: &[u8], parameters: &[E], columns: usize, numbers: &mut [f32]) {
        let mut pairs = [0f32; 2 * MOST_COLUMNS];
        E::load_run(parameters, &mut pairs);
        for (line, numbers) in lines.chunks_exact(columns / 2).zip(numbers.chunks_exact_mut(columns)) {
            let (low, high) = numbers.split_at_mut(columns / 2);
            for ((&byte, low), high) in line.iter().zip(low).zip(high) {
                *low = ((i32::from(byte) & 15) - 8) as f32;
                *high = ((i32::from(byte) >> 4) - 8) as f32;
            }
            put_in_order(numbers);
            for (number, [scale, offset]) in numbers.iter_mut().zip(pairs.as_chunks::<2>().0) {
                *number = f32::fuse(*number, *scale, *offset);
            }
        }
    }
}
