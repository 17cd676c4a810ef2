//! Matrix products with few rows or columns, and of integers. Nothing is packed: the large operand is read once per [`SKINNY_ROWS`]
//! rows.
//!
//! A product with few columns is transposed into one with few rows. If the rows of b are contiguous, they are scaled and added to a
//! strip of sums ([`added_rows`]). If its columns are contiguous, each sum is a dot product in a fixed number of lanes, which are
//! added as a fixed tree ([`dot_products`]).

#[cfg(target_arch = "x86_64")]
use super::avx512_dots;
use super::problem::{Finish, Matrix, Problem};
use crate::tensor::prelude::*;
use crate::tuning::products::{DOT_STRIP, LONG_DOT, NARROW_STRIP, SKINNY_ROWS, SKINNY_STRIP};

/// Lanes of partial sums of a dot product: `LANES` for short ones, and `MANY_LANES`, as many as the compiler vectorises, for long
/// ones.
const LANES: usize = 16;
const MANY_LANES: usize = 64;

/// An element type of these products.
pub trait Entry: Element {
    /// `left * right + sum`, rounded once.
    fn fuse(left: Self::Acc, right: Self::Acc, sum: Self::Acc) -> Self::Acc;

    /// Computes a strip of dot products by instructions for this type and returns true, if the processor has them and the `work` of
    /// the whole product, in multiply-adds, is enough.
    #[inline(always)]
    fn dots(_strip: &Strip<Self>, _work: usize) -> bool {
        false
    }
}

macro_rules! entry {
    ($($type:ty),*: $fuse:expr) => {$(
        impl Entry for $type {
            #[inline(always)]
            fn fuse(left: Self::Acc, right: Self::Acc, sum: Self::Acc) -> Self::Acc {
                ($fuse)(left, right, sum)
            }
        }
    )*};
}

macro_rules! entry_with_f32_sums {
    ($($type:ty),*) => {$(
        impl Entry for $type {
            #[inline(always)]
            fn fuse(left: f32, right: f32, sum: f32) -> f32 {
                f32::mul_add(left, right, sum)
            }

            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            fn dots(strip: &Strip<Self>, work: usize) -> bool {
                avx512_dots::run(strip, work)
            }
        }
    )*};
}

entry_with_f32_sums!(half::f16, half::bf16, f32);
entry!(f64: f64::mul_add);
entry!(u8, i16, i32, i64: |left: Self::Acc, right: Self::Acc, sum: Self::Acc| left.mul(right).add(sum));

/// Runs a product of `T`.
pub fn run<T: Entry>(problem: &Problem) {
    let mut transposed = if problem.n < problem.m { problem.transposed() } else { *problem };
    let size = size_of::<T>() as isize;
    // The column stride of a single column is meaningless: whether b has contiguous rows is decided by its row stride.
    let has_rows = if transposed.n == 1 { transposed.b.row != size } else { transposed.b.col == size };
    if has_rows {
        strips::<T>(&transposed, SKINNY_STRIP, false);
    } else if transposed.b.row != size {
        packed::<T>(transposed);
    } else if transposed.a.col == size || transposed.k <= 1 {
        strips::<T>(&transposed, DOT_STRIP, true);
    } else {
        let (a, _memory) = pack(transposed.a, [transposed.batch, transposed.m, transposed.k], transposed.dtype.size());
        transposed.a = a;
        strips::<T>(&transposed, DOT_STRIP, true);
    }
}

/// Runs a product over a copy of b whose rows are contiguous.
fn packed<T: Entry>(mut problem: Problem) {
    let (b, _memory) = pack(problem.b, [problem.batch, problem.k, problem.n], problem.dtype.size());
    problem.b = b;
    strips::<T>(&problem, SKINNY_STRIP, false);
}

/// A copy with contiguous rows, and the memory that owns it.
fn pack(from: Matrix, [batch, rows, cols]: [usize; 3], size: usize) -> (Matrix, Vec<u8>) {
    let mut memory = vec![0u8; batch * rows * cols * size];
    let (col, row) = (size as isize, (cols * size) as isize);
    let to = Matrix { data: memory.as_mut_ptr(), row, col, batch: rows as isize * row, conj: from.conj };
    for index in 0..batch {
        let tile_of = |matrix: Matrix| matrix.at(index, 0, 0).strided();
        // SAFETY: the launch guarantees the operand; the memory is new and has that size.
        unsafe { strided::copy(tile_of(from), tile_of(to), size, cols, rows) };
    }
    (to, memory)
}

fn strips<T: Entry>(problem: &Problem, width: usize, dots: bool) {
    let [beta, alpha] = problem.scalars::<T::Acc>();
    let (down, across) = (problem.m.div_ceil(SKINNY_ROWS), problem.n.div_ceil(width));
    let count = problem.batch * down * across;
    parallel(count, 1, problem.cost() / count as f64, &|begin, end| {
        for index in begin..end {
            let (batch, row, col) = (index / (down * across), index / across % down * SKINNY_ROWS, index % across * width);
            let tile_of = |matrix: Matrix| matrix.at(batch, row, col);
            let strip = Strip::<T> {
                rows: SKINNY_ROWS.min(problem.m - row),
                cols: width.min(problem.n - col),
                depth: problem.k,
                out: tile_of(problem.out),
                addend: problem.addend.map(tile_of),
                a: problem.a.at(batch, row, 0),
                b: problem.b.at(batch, 0, col),
                finish: Finish { beta, alpha },
            };
            if dots && T::dots(&strip, problem.m * problem.n * problem.k) {
                continue;
            }
            if dots && problem.k >= LONG_DOT {
                dot_products::<T, MANY_LANES>(strip);
            } else if dots {
                dot_products::<T, LANES>(strip);
            } else if strip.cols <= NARROW_STRIP {
                added_rows::<T, NARROW_STRIP>(strip);
            } else {
                added_rows::<T, SKINNY_STRIP>(strip);
            }
        }
    });
}

/// A strip of the output with at most [`SKINNY_ROWS`] rows.
#[derive(Clone, Copy)]
pub struct Strip<T: Entry> {
    pub rows: usize,
    pub cols: usize,
    pub depth: usize,
    out: Matrix,
    addend: Option<Matrix>,
    pub a: Matrix,
    pub b: Matrix,
    finish: Finish<T>,
}

impl<T: Entry> Strip<T> {
    /// Writes one sum to the output.
    #[inline(always)]
    pub fn finish(&self, row: usize, col: usize, sum: T::Acc) {
        let addend = self.addend.map(|addend| addend.at(0, row, col));
        // SAFETY: the strip lies inside the output and the addend, as the launch guarantees.
        unsafe { self.finish.write(self.out.at(0, row, col), addend, sum) };
    }

    #[inline(always)]
    fn factor(&self, row: usize, index: usize) -> T::Acc {
        // SAFETY: a has `rows` x `depth` elements, as the launch guarantees.
        unsafe { self.a.at(0, row, index).data.cast::<T>().read_unaligned() }.load()
    }
}

leaf! {
    /// Adds up scaled rows of b, at most `W` columns of them.
    fn added_rows<T: Entry; W: usize>(strip: Strip<T>) {
        let mut sums = [[T::Acc::ZERO; W]; SKINNY_ROWS];
        let quads = strip.depth / 4 * 4;
        for index in (0..quads).step_by(4) {
            for (row, sums) in sums.iter_mut().enumerate().take(strip.rows) {
                add_rows::<T, 4>(&strip, row, index, &mut sums[..strip.cols]);
            }
        }
        for index in quads..strip.depth {
            for (row, sums) in sums.iter_mut().enumerate().take(strip.rows) {
                add_rows::<T, 1>(&strip, row, index, &mut sums[..strip.cols]);
            }
        }
        for (row, sums) in sums.iter().enumerate().take(strip.rows) {
            for (col, &sum) in sums[..strip.cols].iter().enumerate() {
                strip.finish(row, col, sum);
            }
        }
    }
}

/// Adds `K` rows of b from row `index` on, scaled by elements of a row of a.
#[inline(always)]
fn add_rows<T: Entry, const K: usize>(strip: &Strip<T>, row: usize, index: usize, sums: &mut [T::Acc]) {
    let mut factors = [T::Acc::ZERO; K];
    let mut lines = [std::ptr::null::<T>(); K];
    for step in 0..K {
        factors[step] = strip.factor(row, index + step);
        lines[step] = strip.b.at(0, index + step, 0).data.cast();
    }
    for (col, sum) in sums.iter_mut().enumerate() {
        let mut value = *sum;
        for step in 0..K {
            // SAFETY: b has `depth` rows of `cols` contiguous elements (or one column), as the launch guarantees.
            let element = unsafe { lines[step].wrapping_add(col).read_unaligned() };
            value = T::fuse(element.load(), factors[step], value);
        }
        *sum = value;
    }
}

leaf! {
    /// Dot products of rows of a and columns of b, both contiguous.
    fn dot_products<T: Entry; L: usize>(strip: Strip<T>) {
        let (pairs, quads) = (strip.rows / 2 * 2, strip.cols / 4 * 4);
        for col in (0..quads).step_by(4) {
            for row in (0..pairs).step_by(2) {
                dots::<T, L, 2, 4>(&strip, row, col);
            }
            for row in pairs..strip.rows {
                dots::<T, L, 1, 4>(&strip, row, col);
            }
        }
        for col in quads..strip.cols {
            for row in 0..strip.rows {
                dots::<T, L, 1, 1>(&strip, row, col);
            }
        }
    }
}

/// `R` × `C` dot products. The bits of each do not depend on `R` and `C`.
#[inline(always)]
fn dots<T: Entry, const L: usize, const R: usize, const C: usize>(strip: &Strip<T>, row: usize, col: usize) {
    let mut sums = [[[T::Acc::ZERO; L]; C]; R];
    let (mut left, mut right) = ([std::ptr::null::<T>(); R], [std::ptr::null::<T>(); C]);
    for (step, line) in left.iter_mut().enumerate() {
        *line = strip.a.at(0, row + step, 0).data.cast();
    }
    for (step, line) in right.iter_mut().enumerate() {
        *line = strip.b.at(0, 0, col + step).data.cast();
    }
    let whole = strip.depth / L * L;
    for index in (0..whole).step_by(L) {
        multiply::<T, L, R, C>(&load::<T, L, R>(&left, index, L), &load::<T, L, C>(&right, index, L), &mut sums);
    }
    if whole < strip.depth {
        let rest = strip.depth - whole;
        multiply::<T, L, R, C>(&load::<T, L, R>(&left, whole, rest), &load::<T, L, C>(&right, whole, rest), &mut sums);
    }
    for (below, sums) in sums.iter().enumerate() {
        for (beside, lanes) in sums.iter().enumerate() {
            strip.finish(row + below, col + beside, tree::<T, L>(*lanes));
        }
    }
}

/// `count` elements of each line from `index` on, widened and padded with zeros.
#[inline(always)]
fn load<T: Entry, const L: usize, const N: usize>(lines: &[*const T; N], index: usize, count: usize) -> [[T::Acc; L]; N] {
    let mut lanes = [[T::Acc::ZERO; L]; N];
    for (line, lanes) in lines.iter().zip(&mut lanes) {
        for (lane, value) in lanes[..count].iter_mut().enumerate() {
            // SAFETY: `dots` stays inside the `depth` elements of a row of a or a column of b.
            *value = unsafe { line.wrapping_add(index + lane).read_unaligned() }.load();
        }
    }
    lanes
}

#[inline(always)]
fn multiply<T: Entry, const L: usize, const R: usize, const C: usize>(
    left: &[[T::Acc; L]; R],
    right: &[[T::Acc; L]; C],
    sums: &mut [[[T::Acc; L]; C]; R],
) {
    for (left, sums) in left.iter().zip(sums) {
        for (right, sums) in right.iter().zip(sums) {
            for lane in 0..L {
                sums[lane] = T::fuse(left[lane], right[lane], sums[lane]);
            }
        }
    }
}

#[inline(always)]
fn tree<T: Entry, const L: usize>(mut lanes: [T::Acc; L]) -> T::Acc {
    let mut width = L / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = lanes[lane].add(lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
}
