//! Tiling of a matrix product's output, by its shape alone.

use super::problem::Problem;
use crate::tensor::loops::parallel;
use crate::tuning::products::{HUGE_TILE_MULTIPLY_ADDS, MAX_HUGE_TILES, MAX_TILES, TILE_MULTIPLY_ADDS};

/// How an output is divided into tiles.
#[derive(Clone, Copy)]
pub struct Tiling {
    /// The maximum of rows and columns of a tile.
    pub side: usize,
    /// The minimum of multiply-adds of a tile, unless `side` makes it smaller.
    pub worth: f64,
    /// The sizes of a tile are multiples of these, except for the last tile in each direction.
    pub align: [usize; 2],
}

impl Tiling {
    /// For the `gemm` crate, whose special cases for tiny outputs start below 48 rows and columns.
    pub const GEMM: Self = Self { side: usize::MAX, worth: TILE_MULTIPLY_ADDS, align: [48, 48] };
}

/// One tile: a batch index and a rectangle of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    pub batch: usize,
    pub row: usize,
    pub col: usize,
    pub rows: usize,
    pub cols: usize,
}

/// The rows and columns of a tile for an output of `m` × `n` with sums over `k`, in a batch of `batch`.
fn size(batch: usize, [m, n, k]: [usize; 3], tiling: Tiling) -> (usize, usize) {
    let Tiling { side: limit, worth, align } = tiling;
    let work = batch as f64 * m as f64 * n as f64 * k as f64;
    let wanted = (work / worth).min(MAX_TILES).max((work / HUGE_TILE_MULTIPLY_ADDS).min(MAX_HUGE_TILES)) / batch as f64;
    let (mut rows, mut cols) = (m, n);
    while (m.div_ceil(rows) * n.div_ceil(cols)) as f64 * 2.0 <= wanted || rows.max(cols) > limit {
        let (longer, align) = if rows >= cols { (&mut rows, align[0]) } else { (&mut cols, align[1]) };
        let half = longer.div_ceil(2).next_multiple_of(align);
        if half >= *longer {
            break;
        }
        *longer = half;
    }
    (rows, cols)
}

/// Runs `body` for every tile of the product, in parallel where it is worth it.
pub fn for_each(problem: &Problem, tiling: Tiling, body: &(dyn Fn(Tile) + Sync)) {
    let (rows, cols) = size(problem.batch, [problem.m, problem.n, problem.k], tiling);
    let (down, across) = (problem.m.div_ceil(rows), problem.n.div_ceil(cols));
    let count = problem.batch * down * across;
    parallel(count, 1, problem.cost() / count as f64, &|begin, end| {
        for index in begin..end {
            let (row, col) = (index / across % down * rows, index % across * cols);
            let (rows, cols) = (rows.min(problem.m - row), cols.min(problem.n - col));
            body(Tile { batch: index / (across * down), row, col, rows, cols });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEMM: Tiling = Tiling::GEMM;

    #[test]
    fn small_products_are_one_tile_and_huge_ones_many() {
        assert_eq!(size(1, [64, 64, 64], GEMM), (64, 64));
        assert_eq!(size(1000, [64, 64, 64], GEMM), (64, 64));
        assert_eq!(size(1, [1024, 1024, 1024], GEMM), (288, 528));
        assert_eq!(size(1, [384, 384, 384], Tiling { worth: 2e7, ..GEMM }), (192, 384));
        assert!(size(1, [4096, 4096, 4096], GEMM).0 <= 1056);
        assert_eq!(size(1, [1000, 10, 0], Tiling { side: 256, ..GEMM }), (144, 10));
    }
}
