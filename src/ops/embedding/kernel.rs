//! Embedding tables: `_embedding_bag`, and `embedding_renorm_`, which scales rows down to a maximum norm.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::simd::prefetch;
use crate::tensor::loops::disjoint::DisjointSlice;
use crate::tensor::prelude::*;
use crate::tuning::algorithms::ADDED_TOGETHER;
use crate::tuning::caches::{FAR_TABLE_BYTES, PREFETCHED_ROW_BYTES, PREFETCHED_ROWS};
use crate::tuning::sharing::MAX_PIECE_NS;

signature! {
    /// `aten::_embedding_bag`: the sum, mean or maximum of the rows of each bag. Operands [out, bag of each index, bag sizes,
    /// indices of the maxima, table, indices, offsets, weights of the indices?]. Integer operands are Long. Scalars [mode,
    /// padding index or -1].
    embedding_bag(out, bag_of_index, bag_sizes, maxima; table, indices, offsets, weights?)[mode, padding] in FLOATING =>
        |launch, T| Bags::<T>::new(launch)?.run(launch.cost());
    embedding_renorm(table; indices)[max_norm, norm_type] in FIELD | COMPLEX;
}

const SUM: i64 = 0;
const MEAN: i64 = 1;

/// Columns of a block whose sums stay in registers.
const LANES: usize = 64;
/// Columns of a block for the columns that remain.
const FEW_LANES: usize = 16;

/// A number of the indices, as that of one of `rows` rows.
fn row_at(indices: &[i64], at: usize, rows: usize) -> Result<usize, Error> {
    let number = indices[at];
    let row = usize::try_from(number).ok().filter(|&row| row < rows);
    row.ok_or_else(|| Error::new(format!("Index {at} of input takes value {number} which is not in the valid range [0, {rows})")))
}

/// A table of contiguous rows.
#[derive(Clone, Copy)]
struct EmbeddingTable {
    data: *mut u8,
    step: isize,
    rows: usize,
    cols: usize,
}

// SAFETY: this is the description of a view, which is `Send` and `Sync`.
unsafe impl Send for EmbeddingTable {}
// SAFETY: as above.
unsafe impl Sync for EmbeddingTable {}

impl EmbeddingTable {
    fn new(view: View<'_>) -> Result<Self, Error> {
        if view.ndim() != 2 || view.size(1) > 1 && view.strides()[1] != view.dtype().size() as i64 {
            return Err(Error::new("a table has contiguous rows"));
        }
        Ok(Self { data: view.data(), step: view.stride(0), rows: view.size(0), cols: view.size(1) })
    }

    fn row<T>(&self, row: usize) -> *mut T {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        self.data.wrapping_offset(row as isize * self.step).cast()
    }
}

struct Bags<'a, T> {
    out: EmbeddingTable,
    maxima: Option<EmbeddingTable>,
    table: EmbeddingTable,
    bag_of: DisjointSlice<'a, i64>,
    sizes: DisjointSlice<'a, i64>,
    indices: &'a [i64],
    offsets: &'a [i64],
    weights: Option<&'a [T]>,
    mode: i64,
    padding: i64,
}

impl<'a, T: Element<Acc: Real>> Bags<'a, T> {
    fn new(launch: &Launch<'a>) -> Result<Self, Error> {
        let embedding_bag::Scalars { mode, padding } = embedding_bag::Scalars::of(launch)?;
        let embedding_bag::Operands { out, bag_of_index, bag_sizes, maxima, table, indices, offsets, weights } =
            embedding_bag::Operands::of(launch)?;
        let (bag_of, sizes) = (bag_of_index.into_elements()?, bag_sizes.into_elements()?);
        let (indices, offsets) = (indices.elements()?, offsets.elements()?);
        let weights: Option<&[T]> = weights.as_ref().map(View::elements).transpose()?;
        let (out, table) = (EmbeddingTable::new(*out)?, EmbeddingTable::new(table)?);
        let fits = offsets.len() >= out.rows && bag_of.len() == indices.len() && sizes.len() >= out.rows;
        if !fits || weights.is_some_and(|weights| weights.len() != indices.len()) || table.cols != out.cols {
            return Err(Error::new("the operands of bags do not fit together"));
        }
        // Each index then belongs to one bag.
        if !offsets.is_sorted() {
            return Err(Error::new("offsets of bags must not decrease"));
        }
        Ok(Self {
            out,
            maxima: if maxima.ndim() == 2 { Some(EmbeddingTable::new(*maxima)?) } else { None },
            table,
            bag_of: DisjointSlice::new(bag_of),
            sizes: DisjointSlice::new(sizes),
            indices,
            offsets,
            weights,
            mode: mode.to(),
            padding: padding.to(),
        })
    }

    /// The range of indices of a bag.
    fn span(&self, bag: usize) -> Result<(usize, usize), Error> {
        let count = self.indices.len();
        let begin = self.offsets[bag];
        let end = self.offsets.get(bag + 1).copied().unwrap_or(count as i64);
        if bag == 0 && begin != 0 {
            return Err(Error::new(format!(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {begin}"
            )));
        }
        match (usize::try_from(begin), usize::try_from(end)) {
            (Ok(begin), Ok(end)) if begin <= count && end <= count => Ok((begin, end)),
            _ => Err(Error::new(format!(
                "offsets[-1] can not be greater than input's length {count} but got offsets[-1] of {}",
                begin.max(end)
            ))),
        }
    }

    fn run(&self, cost: f64) -> Result<(), Error> {
        let failure = Failure::default();
        let per_bag = self.indices.len() as f64 / self.out.rows.max(1) as f64 * self.table.cols as f64 * cost;
        parallel(self.out.rows, (MAX_PIECE_NS / per_bag.max(1.0)) as usize + 1, per_bag, &|begin, end| {
            let mut sums = vec![T::Acc::ZERO; self.table.cols];
            for bag in begin..end {
                failure.note(self.bag(bag, &mut sums));
            }
        });
        failure.result()
    }

    fn bag(&self, bag: usize, sums: &mut [T::Acc]) -> Result<(), Error> {
        let (begin, end) = self.span(bag)?;
        let is_maximum = self.mode != SUM && self.mode != MEAN;
        sums.fill(T::Acc::ZERO);
        let maxima = self.maxima.filter(|_| is_maximum).map(|table| table.row::<i64>(bag));
        if let Some(maxima) = maxima {
            // SAFETY: this is a row of an output with as many columns, which the launch may write. The operator makes it as a
            // contiguous tensor of int64, so it is aligned.
            unsafe { maxima.write_bytes(0, self.table.cols) };
        }
        let (mut count, mut rows, mut pending) = (0i64, [AddedRow::NONE; ADDED_TOGETHER], 0);
        for at in begin..end {
            let row = row_at(self.indices, at, self.table.rows)?;
            // SAFETY: there is an element for each index; only the thread of the index's bag writes it.
            unsafe { self.bag_of.set(at, bag as i64) };
            if row as i64 == self.padding {
                continue;
            }
            let from = self.table.row::<T>(row).cast_const();
            if is_maximum {
                maximum(from, &mut *sums, maxima, row as i64, count == 0);
            } else {
                let weight = self.weights.map_or(T::Acc::ONE, |weights| weights[at].load());
                rows[pending] = AddedRow { from, weight, later: self.later(at) };
                pending += 1;
                if pending == ADDED_TOGETHER {
                    add_rows(&rows, &mut *sums);
                    pending = 0;
                }
            }
            count += 1;
        }
        add_rows(&rows[..pending], &mut *sums);
        // SAFETY: there is an element for each bag; only the thread of the bag writes it.
        unsafe { self.sizes.set(bag, count) };
        let divisor = if self.mode == MEAN && count > 0 { T::Acc::from_i64(count) } else { T::Acc::ONE };
        finish(self.out.row::<T>(bag), sums, divisor);
        Ok(())
    }

    /// The row to prefetch: that of an index [`PREFETCHED_ROWS`] later, if the table is large.
    fn later(&self, at: usize) -> Option<*const T> {
        let is_far = self.table.rows * self.table.cols * size_of::<T>() >= FAR_TABLE_BYTES;
        let at = Some(at + PREFETCHED_ROWS).filter(|&at| is_far && at < self.indices.len())?;
        row_at(self.indices, at, self.table.rows).ok().map(|row| self.table.row::<T>(row).cast_const())
    }
}

/// A row to add, its factor, and a later row to prefetch meanwhile.
#[derive(Clone, Copy)]
struct AddedRow<T: Element> {
    from: *const T,
    weight: T::Acc,
    later: Option<*const T>,
}

impl<T: Element<Acc: Number>> AddedRow<T> {
    const NONE: Self = Self { from: std::ptr::null(), weight: T::Acc::ONE, later: None };
}

leaf! {
    fn add_rows<T: Element>(rows: &[AddedRow<T>], sums: &mut [T::Acc]) {
        let (wide, rest) = sums.as_chunks_mut::<LANES>();
        let first = add_blocks(rows, 0, wide);
        let (narrow, rest) = rest.as_chunks_mut::<FEW_LANES>();
        let first = add_blocks(rows, first, narrow);
        for (col, sum) in rest.iter_mut().enumerate() {
            for &AddedRow { from, weight, .. } in rows {
                // SAFETY: a row of the table has as many readable elements as there are sums.
                let value = unsafe { from.wrapping_add(first + col).read_unaligned() };
                *sum = sum.add(value.load().mul(weight));
            }
        }
    }
}

/// Adds rows to the sums from column `first` on, block by block; returns the first column that is left.
#[inline(always)]
fn add_blocks<T: Element, const L: usize>(rows: &[AddedRow<T>], first: usize, blocks: &mut [[T::Acc; L]]) -> usize {
    let count = blocks.len();
    for (number, block) in blocks.iter_mut().enumerate() {
        let mut sums = *block;
        let col = first + number * L;
        for &AddedRow { from, weight, later } in rows {
            if let Some(later) = later {
                fetch(later.wrapping_add(col).cast(), L * size_of::<T>());
            }
            // SAFETY: a row of the table has as many readable elements as there are sums.
            let values = unsafe { from.wrapping_add(col).cast::<[T; L]>().read_unaligned() };
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = sum.add(value.load().mul(weight));
            }
        }
        *block = sums;
    }
    first + count * L
}

/// Prefetches the beginning of a row; the hardware prefetcher loads the rest.
#[inline(always)]
fn fetch(row: *const u8, bytes: usize) {
    for line in (0..bytes.min(PREFETCHED_ROW_BYTES)).step_by(64) {
        prefetch(row.wrapping_add(line));
    }
}

leaf! {
    /// Keeps the maximum of each column and the row that it is from; the first row wins where values are equal.
    fn maximum<T: Element<Acc: Ordered>>(from: *const T, sums: &mut [T::Acc], maxima: Option<*mut i64>, row: i64, is_first: bool) {
        for (col, best) in sums.iter_mut().enumerate() {
            // SAFETY: as in `add_rows`.
            let value = unsafe { from.wrapping_add(col).read_unaligned() }.load();
            if is_first || value > *best {
                *best = value;
                if let Some(maxima) = maxima {
                    // SAFETY: a row of the indices has as many elements as one of the table, and the launch may write it.
                    unsafe { maxima.wrapping_add(col).write_unaligned(row) };
                }
            }
        }
    }

    /// Stores the result of a bag.
    fn finish<T: Element<Acc: Field>>(to: *mut T, sums: &[T::Acc], divisor: T::Acc) {
        for (col, sum) in sums.iter().enumerate() {
            // SAFETY: a row of the output has as many elements as there are sums, and the launch may write it.
            unsafe { to.wrapping_add(col).write_unaligned(T::store(sum.div(divisor))) };
        }
    }
}

/// `aten::embedding_renorm_`: rows at the given indices whose norm exceeds a maximum are scaled down to it. Norm and factor are
/// rounded to the rows' dtype. Operands [table, indices (Long)]; scalars [maximum norm, p of the p-norm].
pub fn embedding_renorm(launch: &Launch<'_>) -> Result<(), Error> {
    let embedding_renorm::Operands { table, indices } = embedding_renorm::Operands::of(launch)?;
    let (dtype, table, indices) = (table.dtype(), EmbeddingTable::new(*table)?, indices.elements::<i64>()?);
    let embedding_renorm::Scalars { max_norm, norm_type } = embedding_renorm::Scalars::of(launch)?;
    let (greatest, kind) = (max_norm.to::<f64>(), norm_type.to::<f64>());
    let named: Vec<AtomicBool> = (0..table.rows).map(|_| AtomicBool::new(false)).collect();
    for at in 0..indices.len() {
        let row = row_at(indices, at, table.rows)?;
        named[row].store(true, Ordering::Relaxed);
    }
    dispatch!(dtype in FIELD | COMPLEX_HALF, T => {
        let cost = table.cols as f64 * launch.cost();
        parallel(table.rows, (MAX_PIECE_NS / cost.max(1.0)) as usize + 1, cost, &|begin, end| {
            for row in (begin..end).filter(|&row| named[row].load(Ordering::Relaxed)) {
                renorm_row(table.row::<T>(row), table.cols, greatest, kind);
            }
        });
        Ok(())
    })
}

fn renorm_row<T: Element>(row: *mut T, cols: usize, greatest: f64, kind: f64) {
    // SAFETY: this is a row of the table, which the launch may read and write, and only this thread does.
    let read = |col: usize| unsafe { row.wrapping_add(col).read_unaligned() }.load().hub().to::<Complex64>();
    let magnitude = |value: Complex64| if value.im == 0.0 { value.re.abs() } else { value.norm() };
    let values = (0..cols).map(|col| magnitude(read(col)));
    let norm = if kind == 2.0 {
        values.map(|value| value * value).sum::<f64>().sqrt()
    } else if kind.is_infinite() {
        values.fold(0.0, f64::max)
    } else if kind == 0.0 {
        values.filter(|&value| value != 0.0).count() as f64
    } else {
        values.map(|value| value.powf(kind)).sum::<f64>().powf(1.0 / kind)
    };
    let rounded = |value: f64| T::store(T::Acc::from_f64(value)).load();
    let norm = rounded(norm).hub().to::<f64>();
    if norm <= greatest || norm.is_nan() {
        return;
    }
    let scale = rounded(greatest / (norm + 1e-7));
    for col in 0..cols {
        // SAFETY: as above.
        let value = unsafe { row.wrapping_add(col).read_unaligned() };
        // SAFETY: as above.
        unsafe { row.wrapping_add(col).write_unaligned(T::store(value.load().mul(scale))) };
    }
}
