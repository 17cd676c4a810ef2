//! Products with quantised weights, which models keep compressed in memory and widen as they multiply.
//!
//! Weights are (N, K): a row for each column of the result. The columns of the result are divided into strips. Few rows of x are
//! multiplied by the weights as these are read, since reading takes the time. For more rows, blocks of weights are widened to `f32`
//! and multiplied by register tiles. Sums are `f32`, and rounded once. The division depends on the shapes alone, so results do not
//! depend on the number of threads.

mod int4;
mod int8;
mod integer_product;

use std::ops::Range;

pub use integer_product::cost as int_mm_cost;

use crate::ops::matmul::kernel::register_tile::{COLUMNS, Left, RowMajor, multiply};
use crate::tensor::loops::row::widen;
use crate::tensor::prelude::*;

signature! {
    /// `aten::_weight_int8pack_mm`: out = x @ (weights * scales)ᵀ. Operands [out (M, N), x (M, K), weights (N, K) of `Char`, scales
    /// (N)], contiguous; out, x and scales have one dtype.
    weight_int8pack_mm(out; x, weights, scales)[] in FLOAT | HALVES => |launch, E| int8::product::<E>(launch);
    /// `aten::_weight_int4pack_mm_for_cpu`: out = x @ ((weights - 8) * scales + offsets)ᵀ. Operands [out (M, N), x (M, K), packed
    /// (N, K / 2) of `Byte` as [`convert_weight_to_int4pack`] makes them, parameters (K / group, N, 2): scales and offsets],
    /// contiguous; out, x and parameters have one dtype. Scalars [group], the terms that share a scale; it divides K and is even.
    weight_int4pack_mm(out; x, packed, parameters)[group] in FLOAT | HALVES => |launch, E| int4::product::<E>(launch);
    /// `aten::_convert_weight_to_int4pack_for_cpu`: packs weights of 4 bits in the layout of PyTorch's CPU kernel, which depends on
    /// the instruction set (`aten/src/ATen/native/cpu/int4mm_kernel.cpp`). Operands [out (N, K / 2) of `Byte`, weights (N, K) of
    /// `Int`, 0 to 15], contiguous; N is a multiple of 16, K even.
    convert_weight_to_int4pack(out; weights)[] in INT => |launch| int4::pack(launch);
    /// `aten::_int_mm`: out = a @ columnsᵀ, exact but for overflow, which wraps. Operands [out (M, N) of `Int`, a (M, K) of `Char`
    /// or `Byte`, columns (N, K) of `Char`], contiguous.
    int_mm(out; a, columns)[] in INT => |launch| integer_product::product(launch);
}

/// Terms of a block of widened weights: with the columns of a strip it stays in the first-level cache.
const DEPTH: usize = 128;
/// Nanoseconds of one thread for a multiply-add, and for a weight.
const PRODUCT: f64 = 0.015;
const WEIGHT: f64 = 0.05;

/// Nanoseconds of one thread for a product with weights.
pub fn cost(launch: &Launch<'_>) -> u64 {
    let terms = launch.sizes(1).get(1).copied().unwrap_or(0) as f64;
    let columns = launch.sizes(0).get(1).copied().unwrap_or(0) as f64;
    (terms * (launch.numel(0) as f64 * PRODUCT + columns * WEIGHT)) as u64
}

/// Elements that are computed in `f32`.
trait Narrow: Element<Acc = f32> {}
impl<E: Element<Acc = f32>> Narrow for E {}

/// The weights (N, K) of a product.
trait Weights: Sync {
    /// The number of rows of x up to which [`Weights::multiply`] is faster than blocks of widened weights.
    const FEW: usize;

    /// Columns of a strip, a multiple of [`COLUMNS`].
    fn strip(&self) -> usize;

    /// Multiplies rows of x, of K terms each, by the columns of a strip; writes rows of sums, `pitch` numbers apart.
    fn multiply(&self, columns: Range<usize>, x: &[f32], pitch: usize, sums: &mut [f32]);

    /// Writes some terms of a strip: for each term a line of `pitch` numbers, any numbers behind those of the columns.
    fn widen(&self, columns: Range<usize>, terms: Range<usize>, pitch: usize, lines: &mut [f32]);

    /// The factors of the sums of some columns, if there are any.
    fn scales(&self, columns: Range<usize>) -> Option<&[f32]>;
}

/// An error unless the condition holds.
fn check(fits: bool, what: &str) -> Result<(), Error> {
    if fits { Ok(()) } else { Err(Error::new(format!("a quantised product whose {what} have another size"))) }
}

/// `out = x @ weightsᵀ`.
fn product<E: Narrow, W: Weights>(mut out: Output<'_>, x: &View<'_>, weights: &W) -> Result<(), Error> {
    check(out.ndim() == 2 && x.ndim() == 2 && out.size(0) == x.size(0) && out.is_contiguous(), "rows")?;
    let ([m, n], k, x) = ([out.size(0), out.size(1)], x.size(1), x.elements::<E>()?);
    if m * n == 0 {
        return Ok(());
    }
    if k == 0 {
        (0..m).for_each(|row| out.row_mut(&[row]).zero(0, n));
        return Ok(());
    }
    let is_few = m <= W::FEW;
    let depth = if is_few { k } else { DEPTH };
    let mut memory = Memory::of(m * k * size_of::<f32>());
    let blocks: &mut [f32] = memory.numbers(m * k);
    arrange(x, [k, depth], blocks);
    let blocks = &*blocks;
    let cost = k as f64 * (m as f64 * PRODUCT + WEIGHT);
    out.in_blocks(1, weights.strip(), cost, &|begin, end, mut out| {
        let pitch = (end - begin).next_multiple_of(COLUMNS);
        let mut memory = Memory::of((m + DEPTH) * pitch * size_of::<f32>());
        let (sums, lines) = memory.numbers::<f32>((m + DEPTH) * pitch).split_at_mut(m * pitch);
        if is_few {
            weights.multiply(begin..end, blocks, pitch, sums);
        } else {
            for first in (0..k).step_by(DEPTH) {
                let depth = DEPTH.min(k - first);
                weights.widen(begin..end, first..first + depth, pitch, lines);
                let (x, lines) =
                    (Left { data: &blocks[first * m..], rows: depth, cols: 1 }, RowMajor { data: &*lines, rows: pitch });
                multiply([m, pitch, depth], RowMajor { data: sums, rows: pitch }, x, lines, first > 0);
            }
        }
        for (row, sums) in sums.chunks_exact_mut(pitch).enumerate() {
            let mut row = out.row_mut(&[row]);
            if let Some(elements) = row.as_slice_mut::<E>() {
                store(&mut sums[..end - begin], weights.scales(begin..end).unwrap_or(&[]), elements);
            }
        }
    });
    Ok(())
}

/// Widens rows of `k` elements, block of `depth` terms by block: all rows of a block follow each other.
fn arrange<E: Narrow>(x: &[E], [k, depth]: [usize; 2], blocks: &mut [f32]) {
    let mut rest = blocks;
    for first in (0..k).step_by(depth) {
        let depth = depth.min(k - first);
        let (block, after) = rest.split_at_mut(x.len() / k * depth);
        rest = after;
        for (row, numbers) in x.chunks_exact(k).zip(block.chunks_exact_mut(depth)) {
            widen(&row[first..first + depth], numbers);
        }
    }
}

leaf! {
    /// Multiplies sums by their factors, if there are any, and rounds them.
    fn store<E: Narrow>(sums: &mut [f32], scales: &[f32], elements: &mut [E]) {
        for (sum, scale) in sums.iter_mut().zip(scales) {
            *sum *= scale;
        }
        E::store_run(sums, elements);
    }
}
