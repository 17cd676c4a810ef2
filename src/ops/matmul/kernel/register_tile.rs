//! Products of matrices in the caches, tile by tile: the sums of a tile stay in registers during the loop over the terms.
//!
//! Each element of a result is the sum of its terms in order, whichever tile computes it. The number of columns of a result is a
//! multiple of [`COLUMNS`]: callers with fewer columns pad the rows of the right operand with zeros.

use super::skinny::Entry;
use crate::tensor::prelude::*;

/// The divisor of the number of columns.
pub const COLUMNS: usize = 16;
const ROWS: usize = 4;
/// Rows of a tile with few columns, if there are enough registers for its sums.
const MANY_ROWS: usize = 8;
/// Rows of a tile of two registers of columns with AVX2: the sums fill 12 of 16 registers.
const AVX2_ROWS: usize = 6;

/// A left operand: element (row, col) is at position `row * rows + col * cols`.
#[derive(Clone, Copy)]
pub struct Left<'a, T> {
    pub data: &'a [T],
    pub rows: usize,
    pub cols: usize,
}

/// Contiguous rows at a constant distance: a right operand, or a result.
#[derive(Clone, Copy)]
pub struct RowMajor<D> {
    pub data: D,
    pub rows: usize,
}

/// `out = a @ b`, or `out += a @ b`, with out (m, n), a (m, k), b (k, n). Panics if an operand is too short, or n is no multiple of
/// [`COLUMNS`].
pub fn multiply<T: Entry<Acc = T> + Number>(
    [m, n, k]: [usize; 3],
    out: RowMajor<&mut [T]>,
    a: Left<'_, T>,
    b: RowMajor<&[T]>,
    adds: bool,
) {
    assert!(n.is_multiple_of(COLUMNS), "{n} columns");
    if m == 0 || n == 0 {
        return;
    }
    assert!((m - 1) * out.rows + n <= out.data.len(), "a result of another size");
    if k > 0 {
        assert!((m - 1) * a.rows + (k - 1) * a.cols < a.data.len(), "a left operand of another size");
        assert!((k - 1) * b.rows + n <= b.data.len(), "a right operand of another size");
    }
    vectorize(Product { sizes: [m, n, k], out, a, b, adds });
}

/// Columns of the widest tile: with AVX-512 its sums fill half of its registers, elsewhere half of AVX2's.
fn widest<T>() -> usize {
    match (simd::isa(), size_of::<T>()) {
        (Isa::Avx512, 4) => 64,
        (Isa::Avx512, _) => 32,
        _ => COLUMNS,
    }
}

/// A product whose operands have been checked.
struct Product<'a, T> {
    sizes: [usize; 3],
    out: RowMajor<&'a mut [T]>,
    a: Left<'a, T>,
    b: RowMajor<&'a [T]>,
    adds: bool,
}

impl<T: Entry<Acc = T> + Number> Leaf for Product<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        let (n, widest) = (self.sizes[1], widest::<T>());
        let mut col = 0;
        while col < n {
            col += match (widest.min(n - col), widest) {
                (64.., _) => self.columns::<ROWS, 64>(col),
                (48.., _) => self.columns::<ROWS, 48>(col),
                (32.., 64) => self.columns::<MANY_ROWS, 32>(col),
                (32.., _) => self.columns::<ROWS, 32>(col),
                (_, 64) => self.columns::<MANY_ROWS, COLUMNS>(col),
                (_, 32) => self.columns::<ROWS, COLUMNS>(col),
                _ if simd::isa() == Isa::Avx2 && size_of::<T>() == 4 => self.columns::<AVX2_ROWS, COLUMNS>(col),
                _ if simd::isa() == Isa::Avx2 => self.columns::<AVX2_ROWS, { COLUMNS / 2 }>(col),
                _ if size_of::<T>() == 4 => self.columns::<ROWS, COLUMNS>(col),
                _ => self.columns::<ROWS, { COLUMNS / 2 }>(col),
            };
        }
    }
}

impl<T: Entry<Acc = T> + Number> Product<'_, T> {
    /// Computes `W` columns of the result, by tiles of up to `R` rows; returns `W`.
    #[inline(always)]
    fn columns<const R: usize, const W: usize>(&mut self, col: usize) -> usize {
        let m = self.sizes[0];
        let mut row = 0;
        while row < m {
            row += match m - row {
                rows if rows >= R => self.tile::<R, W>(row, col),
                ROWS.. if R > ROWS => self.tile::<ROWS, W>(row, col),
                2.. => self.tile::<2, W>(row, col),
                _ => self.tile::<1, W>(row, col),
            };
        }
        W
    }

    /// Computes `R` rows of `W` columns; returns `R`.
    #[inline(always)]
    fn tile<const R: usize, const W: usize>(&mut self, row: usize, col: usize) -> usize {
        let out = self.out.data[row * self.out.rows + col..].as_mut_ptr();
        let a = self.a.data.as_ptr().wrapping_add(row * self.a.rows);
        let b = self.b.data.as_ptr().wrapping_add(col);
        // SAFETY: `multiply` has checked that the rows and columns below `sizes` lie inside the operands. This tile lies inside
        // them too: `run` and `columns` stay below `sizes`, as the number of columns is a multiple of every chosen width.
        unsafe {
            tile::<T, R, W>((a, [self.a.rows, self.a.cols]), (b, self.b.rows), self.sizes[2], (out, self.out.rows), self.adds);
        };
        R
    }
}

/// Computes `R` rows and `W` columns of `out = a @ b`, or of `out += a @ b`, over `k` terms.
///
/// # Safety
/// From the pointers on, at the given distances between rows (and columns), there must be R x k elements of a, k x W of b, and R x
/// W of out. Nothing else may use out meanwhile.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "the compiler keeps the sums in registers where they have numbers, and not where iterators go over them; with the rows inside \
              of the columns, it makes vectors of columns before it unrolls anything"
)]
unsafe fn tile<T: Entry<Acc = T> + Number, const R: usize, const W: usize>(
    (a, [a_rows, a_cols]): (*const T, [usize; 2]),
    (b, b_rows): (*const T, usize),
    k: usize,
    (out, out_rows): (*mut T, usize),
    adds: bool,
) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise.
    if unsafe { super::avx2_tile::tile::<T, R, W>((a, [a_rows, a_cols]), (b, b_rows), k, (out, out_rows), adds) } {
        return;
    }
    let mut sums = [[<T as Number>::ZERO; W]; R];
    if adds {
        for row in 0..R {
            // SAFETY: R x W elements of out, as the caller promises.
            sums[row] = unsafe { out.wrapping_add(row * out_rows).cast::<[T; W]>().read() };
        }
    }
    for index in 0..k {
        // SAFETY: k x W elements of b, as the caller promises.
        let terms = unsafe { &*b.wrapping_add(index * b_rows).cast::<[T; W]>() };
        let mut factors = [<T as Number>::ZERO; R];
        for row in 0..R {
            // SAFETY: R x k elements of a, as the caller promises.
            factors[row] = unsafe { a.wrapping_add(row * a_rows + index * a_cols).read() };
        }
        for col in 0..W {
            for row in 0..R {
                sums[row][col] = T::fuse(terms[col], factors[row], sums[row][col]);
            }
        }
    }
    for row in 0..R {
        // SAFETY: R x W elements of out, as the caller promises.
        unsafe { out.wrapping_add(row * out_rows).cast::<[T; W]>().write(sums[row]) };
    }
}
