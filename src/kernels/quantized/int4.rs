//! Weights of 4 bits with a scale and an offset for each group of terms of a row.
//!
//! The layout is that of PyTorch's CPU kernel. Rows of weights are packed in blocks of four registers; a block has a line of bytes for
//! each term. With AVX2 and AVX-512 the low halves of a line's bytes are the first half of the block's rows, the high halves the
//! second. Blocks of fewer rows, and all blocks elsewhere, have two adjacent rows in a byte.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256, _mm_loadl_epi64, _mm256_add_ps, _mm256_and_si256, _mm256_broadcast_ss, _mm256_cvtepi32_ps, _mm256_cvtepu8_epi32,
    _mm256_fmadd_ps, _mm256_set1_epi32, _mm256_setzero_ps, _mm256_srli_epi32, _mm256_storeu_ps,
};
use std::ops::Range;

use super::{Narrow, Weights, check, convert_weight_to_int4pack, elements, product as multiply, weight_int4pack_mm};
use crate::kernels::matmul::Entry;
use crate::simd::{self, Isa, across, leaf};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::row::RowMut;

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
    let (k, weights) = (weights.size(1), elements::<i32>(&weights)?);
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

/// Calls a function with the bytes of a line and the columns of a block as constants.
macro_rules! of_width {
    ($columns:expr, $function:ident::<$E:ident>($($argument:expr),*)) => {
        match $columns {
            64 => $function::<$E, 32, 64>($($argument),*),
            48 => $function::<$E, 24, 48>($($argument),*),
            32 => $function::<$E, 16, 32>($($argument),*),
            _ => $function::<$E, 8, 16>($($argument),*),
        }
    };
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
    let (packed, parameters) = (elements::<u8>(&packed)?, elements::<E>(&parameters)?);
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
}

impl<E: Narrow> Int4<'_, E> {
    /// Adds the products of `R` rows of x to the sums of a block, group by group.
    fn add<const R: usize>(&self, x: [&[f32]; R], columns: &Range<usize>, sums: [&mut [f32]; R]) {
        for first in (0..self.k).step_by(self.group) {
            let x = x.map(|row| &row[first..first + self.group]);
            let products = products(&x, self.lines(columns, first..first + self.group), columns.len() / 2);
            let parameters = self.parameters(columns, first);
            for row in 0..R {
                let (total, is_halved) = (total(x[row]), is_halved(columns.len()));
                of_width!(columns.len(), finish::<E>(&products[row], total, is_halved, parameters, sums[row]));
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
            of_width!(columns.len(), widen::<E>(self.lines(&columns, first..last), parameters, is_halved(columns.len()), numbers));
            (first, rest) = (last, after);
        }
    }

    fn scales(&self, _columns: Range<usize>) -> Option<&[f32]> {
        None
    }
}

/// Numbers of the low and the high halves of bytes, in the order of columns.
#[inline(always)]
fn ordered<const H: usize, const W: usize>(halves: [[f32; H]; 2], is_halved: bool) -> [f32; W] {
    let mut columns = [0f32; W];
    if is_halved {
        columns[..H].copy_from_slice(&halves[0]);
        columns[H..].copy_from_slice(&halves[1]);
    } else {
        for at in 0..H {
            columns[2 * at] = halves[0][at];
            columns[2 * at + 1] = halves[1][at];
        }
    }
    columns
}

/// Scales and offsets.
#[inline(always)]
fn separated<E: Narrow, const W: usize>(parameters: &[E]) -> [[f32; W]; 2] {
    let mut pairs = [[0f32; 2]; W];
    E::load_run(parameters, pairs.as_flattened_mut());
    let mut separated = [[0f32; W]; 2];
    for column in 0..W {
        [separated[0][column], separated[1][column]] = pairs[column];
    }
    separated
}

/// Products of the terms of a group with the low and the high halves of a line's bytes.
type Halves = [[f32; MOST_BYTES]; 2];

/// Bytes of a line of the largest block.
const MOST_BYTES: usize = 32;
/// Columns of a register of AVX2.
const REGISTER: usize = 8;

/// Multiplies the terms of a group, an even number of them, by their lines of `bytes` bytes.
fn products<const R: usize>(x: &[&[f32]; R], lines: &[u8], bytes: usize) -> [Halves; R] {
    let mut products = [[[0f32; MOST_BYTES]; 2]; R];
    assert!(x.iter().all(|row| row.len() * bytes == lines.len()) && bytes.is_multiple_of(REGISTER) && bytes <= MOST_BYTES);
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
        return products;
    }
    for (x, [low, high]) in x.iter().zip(&mut products) {
        for (&factor, line) in x.iter().zip(lines.chunks_exact(bytes)) {
            for ((&byte, low), high) in line.iter().zip(&mut *low).zip(&mut *high) {
                *low = f32::fuse(f32::from(byte & 15), factor, *low);
                *high = f32::fuse(f32::from(byte >> 4), factor, *high);
            }
        }
    }
    products
}

/// [`products`] of `C` registers of bytes from position `at` of the lines on. The code uses intrinsics because the compiler makes vectors
/// across terms and columns.
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
    products: &mut [Halves; R],
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
                let to = &mut products[row][half][at + register * REGISTER..][..REGISTER];
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
    fn finish<E: Narrow; H: usize, W: usize>(products: &Halves, total: f32, is_halved: bool, parameters: &[E], sums: &mut [f32]) {
        let halves = [0, 1].map(|half| *products[half].first_chunk::<H>().expect("a line of a block"));
        let (products, [scales, offsets]) = (ordered::<H, W>(halves, is_halved), separated::<E, W>(parameters));
        let sums = &mut sums[..W];
        for column in 0..W {
            let product = f32::fuse(-8.0, total, products[column]);
            sums[column] = f32::fuse(offsets[column], total, f32::fuse(scales[column], product, sums[column]));
        }
    }

    /// Widens lines of terms of one group.
    fn widen<E: Narrow; H: usize, W: usize>(lines: &[u8], parameters: &[E], is_halved: bool, numbers: &mut [f32]) {
        let [scales, offsets] = separated::<E, W>(parameters);
        for (line, numbers) in lines.as_chunks::<H>().0.iter().zip(numbers.as_chunks_mut::<W>().0) {
            let (mut low, mut high) = ([0f32; H], [0f32; H]);
            for at in 0..H {
                let byte = i32::from(line[at]);
                low[at] = ((byte & 15) - 8) as f32;
                high[at] = ((byte >> 4) - 8) as f32;
            }
            let weights = ordered::<H, W>([low, high], is_halved);
            for column in 0..W {
                numbers[column] = f32::fuse(weights[column], scales[column], offsets[column]);
            }
        }
    }
}
