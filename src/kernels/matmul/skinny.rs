//! Products with few rows: matrix-vector and a little beyond, where the speed is that of reading the one large matrix.
//!
//! `rhs` is read once, in one of two ways: if its rows lie side by side, strips of columns are advanced row by row ([`Strips`]); if its
//! columns do, each output is a dot product in fixed lanes ([`Dots`]). The order of additions does not depend on how the output is cut.

use super::product::{Multiply, Operand};
use crate::simd::{Leaf, vectorize};

/// Rows that the loops take.
pub const MAX_ROWS: usize = 8;
/// Partial sums of a dot product.
const LANES: usize = 32;
/// Columns of a strip.
const STRIP: usize = 64;

/// A type with fused multiplication and addition.
pub trait Fused: Multiply {
    /// `self * factor + term`, rounded once.
    fn fused(self, factor: Self, term: Self) -> Self;
}

impl Fused for f32 {
    #[inline(always)]
    fn fused(self, factor: Self, term: Self) -> Self {
        self.mul_add(factor, term)
    }
}

impl Fused for f64 {
    #[inline(always)]
    fn fused(self, factor: Self, term: Self) -> Self {
        self.mul_add(factor, term)
    }
}

/// Whether the loops here are the better ones for `rows` × `cols` with an inner dimension of `k`.
pub fn suits<T>(rows: usize, cols: usize, k: usize, rhs: Operand<T>) -> bool {
    rows <= MAX_ROWS && cols * k >= 256 && (rhs.row == 1 || rhs.col == 1)
}

/// As [`Multiply::multiply`], for shapes that [`suits`] accepts.
///
/// # Safety
/// As [`Multiply::multiply`].
#[expect(clippy::too_many_arguments, reason = "as `Multiply::multiply`")]
pub unsafe fn multiply<T: Fused>(
    rows: usize,
    cols: usize,
    k: usize,
    out: Operand<T>,
    scale: Option<T>,
    lhs: Operand<T>,
    rhs: Operand<T>,
    factor: T,
) {
    let task = Task { cols, k, out, scale, lhs, rhs, factor };
    let mut row = 0;
    while row < rows {
        let left = rows - row;
        let rows = if left >= 4 {
            4
        } else if left >= 2 {
            2
        } else {
            1
        };
        let task = task.from_row(row);
        match (rhs.col == 1, rows) {
            (true, 4) => vectorize(Strips::<T, 4>(task)),
            (true, 2) => vectorize(Strips::<T, 2>(task)),
            (true, _) => vectorize(Strips::<T, 1>(task)),
            (false, 4) => vectorize(Dots::<T, 4>(task)),
            (false, 2) => vectorize(Dots::<T, 2>(task)),
            (false, _) => vectorize(Dots::<T, 1>(task)),
        }
        row += rows;
    }
}

#[derive(Clone, Copy)]
struct Task<T> {
    cols: usize,
    k: usize,
    out: Operand<T>,
    scale: Option<T>,
    lhs: Operand<T>,
    rhs: Operand<T>,
    factor: T,
}

impl<T: Fused> Task<T> {
    fn from_row(mut self, row: usize) -> Self {
        self.out.data = self.out.data.wrapping_offset(row as isize * self.out.row);
        self.lhs.data = self.lhs.data.wrapping_offset(row as isize * self.lhs.row);
        self
    }

    #[inline(always)]
    fn lhs(&self, row: usize, depth: usize) -> T {
        // SAFETY: `multiply`'s caller promises rows × k elements.
        unsafe { self.lhs.data.wrapping_offset(row as isize * self.lhs.row + depth as isize * self.lhs.col).read_unaligned() }
    }

    #[inline(always)]
    fn store(&self, row: usize, col: usize, sum: T) {
        let target = self.out.data.wrapping_offset(row as isize * self.out.row + col as isize * self.out.col);
        let product = self.factor.mul(sum);
        // SAFETY: `multiply`'s caller promises rows × cols elements.
        let value = self.scale.map_or(product, |scale| scale.mul(unsafe { target.read_unaligned() }).add(product));
        // SAFETY: as above.
        unsafe { target.write_unaligned(value) };
    }
}

/// `N` elements side by side.
///
/// # Safety
/// They may be read.
#[inline(always)]
unsafe fn read<T: Copy, const N: usize>(data: *const T) -> [T; N] {
    // SAFETY: the caller promises N elements.
    unsafe { data.cast::<[T; N]>().read_unaligned() }
}

/// rhs has its rows side by side.
struct Strips<T, const ROWS: usize>(Task<T>);

impl<T: Fused, const ROWS: usize> Leaf for Strips<T, ROWS> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let task = self.0;
        let whole = task.cols / STRIP * STRIP;
        for start in (0..whole).step_by(STRIP) {
            let mut sums = [[T::ZERO; STRIP]; ROWS];
            for depth in 0..task.k {
                let line = task.rhs.data.wrapping_offset(depth as isize * task.rhs.row).wrapping_add(start);
                // SAFETY: the strip is inside rhs's row.
                let right: [T; STRIP] = unsafe { read(line) };
                for (row, sums) in sums.iter_mut().enumerate() {
                    let left = task.lhs(row, depth);
                    for (sum, right) in sums.iter_mut().zip(right) {
                        *sum = left.fused(right, *sum);
                    }
                }
            }
            for (row, sums) in sums.iter().enumerate() {
                for (col, &sum) in sums.iter().enumerate() {
                    task.store(row, start + col, sum);
                }
            }
        }
        for col in whole..task.cols {
            for row in 0..ROWS {
                let mut sum = T::ZERO;
                for depth in 0..task.k {
                    let right = task.rhs.data.wrapping_offset(depth as isize * task.rhs.row).wrapping_add(col);
                    // SAFETY: `multiply`'s caller promises k × cols elements.
                    sum = task.lhs(row, depth).fused(unsafe { right.read_unaligned() }, sum);
                }
                task.store(row, col, sum);
            }
        }
    }
}

/// rhs has its columns side by side.
struct Dots<T, const ROWS: usize>(Task<T>);

impl<T: Fused, const ROWS: usize> Leaf for Dots<T, ROWS> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let task = self.0;
        let whole = task.k / LANES * LANES;
        let side_by_side = task.lhs.col == 1;
        for col in 0..task.cols {
            let line = task.rhs.data.wrapping_offset(col as isize * task.rhs.col);
            let mut sums = [[T::ZERO; LANES]; ROWS];
            for start in (0..whole).step_by(LANES) {
                // SAFETY: the lanes are inside rhs's column.
                let right: [T; LANES] = unsafe { read(line.wrapping_add(start)) };
                for (row, sums) in sums.iter_mut().enumerate() {
                    let left: [T; LANES] = if side_by_side {
                        let data = task.lhs.data.wrapping_offset(row as isize * task.lhs.row).wrapping_add(start);
                        // SAFETY: the lanes are inside lhs's row.
                        unsafe { read(data) }
                    } else {
                        std::array::from_fn(|lane| task.lhs(row, start + lane))
                    };
                    for ((sum, left), right) in sums.iter_mut().zip(left).zip(right) {
                        *sum = left.fused(right, *sum);
                    }
                }
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                for depth in whole..task.k {
                    // SAFETY: `multiply`'s caller promises k × cols elements.
                    let right = unsafe { line.wrapping_add(depth).read_unaligned() };
                    sums[depth - whole] = task.lhs(row, depth).fused(right, sums[depth - whole]);
                }
                let mut width = LANES;
                while width > 1 {
                    width /= 2;
                    for lane in 0..width {
                        sums[lane] = sums[lane].add(sums[lane + width]);
                    }
                }
                task.store(row, col, sums[0]);
            }
        }
    }
}
