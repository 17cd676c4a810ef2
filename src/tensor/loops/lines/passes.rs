//! Kernels that read a line several times: [`Passes`].
//!
//! Such a kernel is written once, over [`Rows`]. They are those of one line, [`LANES`] of whose elements make a row, so that lanes
//! are merged at the end; or those of a strip of [`LANES`] lines, one in each lane. Elements are widened when they are read and
//! rounded when they are written.

use std::hint::black_box;

use super::line_batch::Batch;
use super::line_plan::Plan;
use super::{LANES, Strip, drive, operands};
use crate::simd::{across, leaf, prefetch};
use crate::tensor::inlined::inlined;
use crate::tensor::loops::words::{narrow, widen};
use crate::tensor::{Element, Error, Number, Output, View};
use crate::tuning::caches::KEPT_STRIP_ROWS;

/// The values of a row, or the states of each lane.
pub type Lanes<E> = [<E as Element>::Acc; LANES];

/// A kernel over lines of `I` inputs and one output.
pub trait Passes<E: Element, const I: usize>: Sync {
    /// True if the kernel keeps values from one pass to the next.
    const KEEPS: bool;

    /// Computes the output from the inputs. It is compiled for each instruction set: mark it and everything that it calls
    /// `#[inline(always)]`.
    fn run<R: Rows<E, I>>(&self, rows: R);
}

/// The number of a row. `WHOLE`: every lane has an element. This is part of the type because a loop that also contains code for the
/// end of a line does not keep its constants in registers.
#[derive(Clone, Copy)]
pub struct Row<const WHOLE: bool>(pub usize);

/// The rows of one line, or of the lines of a strip.
pub trait Rows<E: Element, const I: usize> {
    /// The number of rows in which every lane has an element.
    fn whole(&self) -> usize;

    /// True if there is one more, partial row at the end of a line.
    fn has_rest(&self) -> bool;

    /// A row of every input. Lanes beyond the end of a line contain `filler`. The order of lanes is the same in all rows.
    fn values<const WHOLE: bool>(&self, row: Row<WHOLE>, filler: E::Acc) -> [Lanes<E>; I];

    /// Keeps values for a later pass, in scratch memory, while the output's row is prefetched. Values of the elements' precision
    /// are kept in the output itself, except those of short strips: the rows of a strip may evict each other from the caches.
    fn keep<const WHOLE: bool>(&mut self, row: Row<WHOLE>, values: &Lanes<E>);

    /// The kept values of a row.
    fn kept<const WHOLE: bool>(&self, row: Row<WHOLE>) -> Lanes<E>;

    /// Writes a row of the output.
    fn store<const WHOLE: bool>(&mut self, row: Row<WHOLE>, values: &Lanes<E>);

    /// Merges the lanes that belong to one line, and sets each of them to the result.
    fn merge(lanes: &mut Lanes<E>, merge: impl Fn(E::Acc, E::Acc) -> E::Acc);
}

/// Runs a block for every [`Row`]: in a loop over the whole ones, and once more for the partial one.
macro_rules! for_each_row {
    ($rows:ident, $row:ident, $body:block) => {
        for row in 0..$rows.whole() {
            let $row = crate::tensor::loops::lines::passes::Row::<true>(row);
            $body
        }
        if $rows.has_rest() {
            let $row = crate::tensor::loops::lines::passes::Row::<false>($rows.whole());
            $body
        }
    };
}
pub(crate) use for_each_row;

/// Runs `kernel` over the lines along `dim` of operands of the same sizes, cast to `E`. `cost`: nanoseconds of one thread per
/// element.
#[inline]
pub fn run<E: Element, K: Passes<E, I>, const I: usize>(
    inputs: [View<'_>; I],
    output: Output<'_>,
    dim: usize,
    cost: f64,
    kernel: &K,
) -> Result<(), Error> {
    let operands = operands::<E, I, 1>(inputs, [output]);
    let kept = |plan: &Plan| kept_beside::<E, K, I>(plan.rows(), plan.in_strips) * size_of::<Lanes<E>>();
    drive(&operands, dim, cost, Some(LANES), &kept, &|batch| {
        each_pass::<E, _, I>(batch, kernel);
    })
}

/// The number of rows of a line or strip whose values are kept in scratch memory.
const fn kept_beside<E: Element, K: Passes<E, I>, const I: usize>(rows: usize, in_strips: bool) -> usize {
    if K::KEEPS && (is_wider::<E>() || in_strips && rows <= KEPT_STRIP_ROWS) { rows } else { 0 }
}

/// True if the computing type is wider than the elements.
const fn is_wider<E: Element>() -> bool {
    size_of::<E>() < size_of::<E::Acc>()
}

leaf! {
    /// Runs a kernel over the lines or strips of a batch.
    fn each_pass<E: Element, K: Passes<E, I>; I: usize>(batch: &Batch<'_>, kernel: &K) {
        let rows = kept_beside::<E, K, I>(batch.rows, batch.in_strips);
        // SAFETY: `drive` provides memory for that many rows of numbers, which may be any bits, for this batch alone.
        let kept = unsafe { std::slice::from_raw_parts_mut(batch.kept.cast::<Lanes<E>>(), rows) };
        if batch.in_strips {
            for col in (0..batch.count).step_by(LANES) {
                let strip = Strip::of(batch, col);
                if const { K::KEEPS && !is_wider::<E>() } && rows == 0 {
                    kernel.run(StripRows::<E, I, false> { strip, kept });
                } else {
                    kernel.run(StripRows::<E, I, true> { strip, kept });
                }
            }
            return;
        }
        // One length for all slices, so that the compiler needs one bounds check for a row of all.
        let len = batch.len;
        for line in 0..batch.count {
            let ptr = |operand: usize| batch.line(operand, line).cast::<E>();
            // SAFETY: `drive` provides lines of `len` aligned elements of each operand's dtype, for this call alone.
            let inputs = std::array::from_fn(|input| unsafe { std::slice::from_raw_parts(ptr(input).cast_const(), len) });
            // SAFETY: as above; the lines of the output overlap no other line.
            let output = unsafe { std::slice::from_raw_parts_mut(ptr(I), len) };
            kernel.run(Line { inputs, output, kept });
        }
    }
}

/// A row of a line, with `filler` in the lanes beyond its end.
#[inline(always)]
fn row_of<E: Element, const WHOLE: bool>(line: &[E], Row(row): Row<WHOLE>, filler: E::Acc) -> Lanes<E> {
    let (whole, rest) = line.as_chunks::<LANES>();
    if const { WHOLE } {
        widen(&whole[row])
    } else {
        let mut chunk = [E::store(filler); LANES];
        chunk[..rest.len()].copy_from_slice(rest);
        widen(&chunk)
    }
}

/// One line.
struct Line<'a, E: Element, const I: usize> {
    inputs: [&'a [E]; I],
    output: &'a mut [E],
    /// Rows of values in scratch memory, or none.
    kept: &'a mut [Lanes<E>],
}

impl<E: Element, const I: usize> Rows<E, I> for Line<'_, E, I> {
    inlined! {
        fn whole(&self) -> usize = self.output.len() / LANES;
        fn has_rest(&self) -> bool = !self.output.len().is_multiple_of(LANES);
    }

    #[inline(always)]
    fn values<const WHOLE: bool>(&self, row: Row<WHOLE>, filler: E::Acc) -> [Lanes<E>; I] {
        let mut values = [[E::Acc::ZERO; LANES]; I];
        for (values, input) in values.iter_mut().zip(&self.inputs) {
            *values = row_of(input, row, filler);
        }
        values
    }

    #[inline(always)]
    fn keep<const WHOLE: bool>(&mut self, row: Row<WHOLE>, values: &Lanes<E>) {
        if const { is_wider::<E>() } {
            prefetch(self.output.as_ptr().wrapping_add(row.0 * LANES).cast());
            self.kept[row.0] = *values;
        } else {
            self.store(row, values);
        }
    }

    #[inline(always)]
    fn kept<const WHOLE: bool>(&self, row: Row<WHOLE>) -> Lanes<E> {
        if const { is_wider::<E>() } {
            // Prefetches the next line, which most likely follows in memory.
            for input in &self.inputs {
                prefetch(input.as_ptr().wrapping_add(input.len() + row.0 * LANES).cast());
            }
            self.kept[row.0]
        } else {
            // If the compiler could see how rows follow each other, it would combine lanes of several rows, with gathers.
            row_of(self.output, Row::<WHOLE>(black_box(row.0)), E::Acc::ZERO)
        }
    }

    #[inline(always)]
    fn store<const WHOLE: bool>(&mut self, Row(row): Row<WHOLE>, values: &Lanes<E>) {
        let (whole, rest) = self.output.as_chunks_mut::<LANES>();
        if const { WHOLE } {
            narrow(values, &mut whole[row]);
        } else {
            let mut chunk = [E::default(); LANES];
            narrow(values, &mut chunk);
            rest.copy_from_slice(&chunk[..rest.len()]);
        }
    }

    #[inline(always)]
    fn merge(lanes: &mut Lanes<E>, merge: impl Fn(E::Acc, E::Acc) -> E::Acc) {
        *lanes = [across(*lanes, merge); LANES];
    }
}

/// The lines of a strip. `BESIDE`: values are kept in scratch memory.
struct StripRows<'a, E: Element, const I: usize, const BESIDE: bool> {
    strip: Strip<E, I, 1>,
    /// As in [`Line`].
    kept: &'a mut [Lanes<E>],
}

impl<E: Element, const I: usize, const BESIDE: bool> Rows<E, I> for StripRows<'_, E, I, BESIDE> {
    inlined! {
        fn whole(&self) -> usize = self.strip.rows().len();
        fn has_rest(&self) -> bool = false;
    }

    #[inline(always)]
    fn values<const WHOLE: bool>(&self, Row(row): Row<WHOLE>, _: E::Acc) -> [Lanes<E>; I] {
        let mut values = [[E::Acc::ZERO; LANES]; I];
        for (which, values) in values.iter_mut().enumerate() {
            *values = widen(self.strip.input(which, row));
        }
        values
    }

    #[inline(always)]
    fn keep<const WHOLE: bool>(&mut self, row: Row<WHOLE>, values: &Lanes<E>) {
        if const { BESIDE } {
            prefetch(self.strip.output(0, row.0).as_ptr().cast());
            self.kept[row.0] = *values;
        } else {
            self.store(row, values);
        }
    }

    #[inline(always)]
    fn kept<const WHOLE: bool>(&self, Row(row): Row<WHOLE>) -> Lanes<E> {
        if const { BESIDE } { self.kept[row] } else { widen(self.strip.written(row)) }
    }

    #[inline(always)]
    fn store<const WHOLE: bool>(&mut self, Row(row): Row<WHOLE>, values: &Lanes<E>) {
        narrow(values, self.strip.output(0, row));
    }

    #[inline(always)]
    fn merge(_: &mut Lanes<E>, _: impl Fn(E::Acc, E::Acc) -> E::Acc) {}
}
