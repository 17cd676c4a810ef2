//! Matrix products of many rows with few columns and few terms. Each row of the output is a sum of at most [`NARROW_COLUMNS`] short
//! rows of b, which stay in registers. The product is therefore bound by memory bandwidth.

use super::problem::{Finish, Problem};
use super::skinny::Entry;
use crate::tensor::prelude::*;
use crate::tuning::products::{NARROW_COLUMNS, NARROW_PIECE_ROWS, NARROW_ROWS};

/// True if this module can compute the product: rows of the output are contiguous, and every row gets the same addend, if any.
pub fn takes(problem: &Problem) -> bool {
    let size = problem.dtype.size() as isize;
    !problem.dtype.is_complex()
        && problem.n <= NARROW_COLUMNS
        && problem.k <= NARROW_COLUMNS
        && problem.m >= NARROW_ROWS
        && problem.out.col == size
        && problem.out.row == problem.n as isize * size
        && problem.addend.is_none_or(|addend| addend.row == 0)
}

/// Runs a product that [`takes`] accepts.
pub fn run<T: Entry>(problem: &Problem) {
    match problem.n {
        ..=4 => pieces::<T, 4>(problem),
        5..=8 => pieces::<T, 8>(problem),
        _ => pieces::<T, NARROW_COLUMNS>(problem),
    }
}

fn pieces<T: Entry, const W: usize>(problem: &Problem) {
    let down = problem.m.div_ceil(NARROW_PIECE_ROWS);
    let count = problem.batch * down;
    parallel(count, 1, problem.cost() / count as f64, &|begin, end| {
        for index in begin..end {
            let (batch, row) = (index / down, index % down * NARROW_PIECE_ROWS);
            vectorize(Piece::<T, W>::new(problem, batch, row));
        }
    });
}

/// Some rows of one product; `W` lanes for its columns.
struct Piece<'a, T: Entry, const W: usize> {
    problem: &'a Problem,
    batch: usize,
    begin: usize,
    end: usize,
    finish: Finish<T>,
}

impl<'a, T: Entry, const W: usize> Piece<'a, T, W> {
    fn new(problem: &'a Problem, batch: usize, row: usize) -> Self {
        let [beta, alpha] = problem.scalars::<T::Acc>();
        Self { problem, batch, begin: row, end: problem.m.min(row + NARROW_PIECE_ROWS), finish: Finish { beta, alpha } }
    }

    /// The rows of b, padded with zeros to `W` lanes.
    #[inline(always)]
    fn terms(&self) -> [[T::Acc; W]; NARROW_COLUMNS] {
        let mut terms = [[T::Acc::ZERO; W]; NARROW_COLUMNS];
        for (index, term) in terms.iter_mut().enumerate().take(self.problem.k) {
            for (col, value) in term.iter_mut().enumerate().take(self.problem.n) {
                let element = self.problem.b.at(self.batch, index, col).data.cast::<T>();
                // SAFETY: b has k x n elements, as the launch guarantees.
                *value = unsafe { element.read_unaligned() }.load();
            }
        }
        terms
    }

    /// The addend of every row.
    #[inline(always)]
    fn addend(&self) -> Option<[T::Acc; W]> {
        let addend = self.problem.addend?;
        let mut values = [T::Acc::ZERO; W];
        for (col, value) in values.iter_mut().enumerate().take(self.problem.n) {
            let element = addend.at(self.batch, 0, col).data.cast::<T>();
            // SAFETY: the addend has n columns, as the launch guarantees.
            *value = self.finish.beta.mul(unsafe { element.read_unaligned() }.load());
        }
        Some(values)
    }

    #[inline(always)]
    fn sums(&self, terms: &[[T::Acc; W]; NARROW_COLUMNS], row: usize) -> [T::Acc; W] {
        let mut sums = [T::Acc::ZERO; W];
        for (index, term) in terms.iter().enumerate().take(self.problem.k) {
            let element = self.problem.a.at(self.batch, row, index).data.cast::<T>();
            // SAFETY: a has m x k elements, as the launch guarantees.
            let factor = unsafe { element.read_unaligned() }.load();
            for lane in 0..W {
                sums[lane] = T::fuse(term[lane], factor, sums[lane]);
            }
        }
        sums
    }
}

impl<T: Entry, const W: usize> Leaf for Piece<'_, T, W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (terms, addend, cols) = (self.terms(), self.addend(), self.problem.n);
        let alpha = self.finish.alpha;
        // Each row is written with all `W` lanes; the next row overwrites those beyond its columns.
        let mut rows = [T::store(T::Acc::ZERO); NARROW_ROWS * NARROW_COLUMNS + NARROW_COLUMNS];
        for begin in (self.begin..self.end).step_by(NARROW_ROWS) {
            let end = self.end.min(begin + NARROW_ROWS);
            for row in begin..end {
                let sums = self.sums(&terms, row);
                let target: &mut [T; W] = (&mut rows[(row - begin) * cols..][..W]).try_into().expect("as many as asked for");
                for lane in 0..W {
                    let value = alpha.mul(sums[lane]);
                    target[lane] = T::store(addend.map_or(value, |addend| value.add(addend[lane])));
                }
            }
            let out = self.problem.out.at(self.batch, begin, 0).data.cast::<T>();
            // SAFETY: the output's rows are contiguous, and no other piece has these; `rows` is memory of this call.
            unsafe { out.copy_from_nonoverlapping(rows.as_ptr(), (end - begin) * cols) };
        }
    }
}
