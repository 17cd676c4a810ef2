//! Products of f16 and bf16: blocks of both operands are widened to f32 and multiplied by the `gemm` crate. Sums are f32 and are
//! rounded once.

use std::cell::Cell;

use super::direct;
use super::problem::{Finish, Matrix, Problem};
use super::tile::{self, Tile, Tiling};
use crate::tensor::prelude::*;
use crate::tuning::products::{WIDENED_DEPTH, WIDENED_TILE_SIDE};

thread_local! {
    /// Blocks of a, of b and of sums.
    static BLOCKS: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// Runs a product of `T`.
pub fn run<T: Element<Acc = f32>>(problem: &Problem) {
    let [beta, alpha] = problem.scalars::<f32>();
    tile::for_each(problem, Tiling { side: WIDENED_TILE_SIDE, ..Tiling::GEMM }, &|tile| {
        let mut blocks = BLOCKS.take();
        blocks.resize((tile.rows + tile.cols) * WIDENED_DEPTH + tile.rows * tile.cols, 0.0);
        one::<T>(problem, Finish { beta, alpha }, tile, &mut blocks);
        BLOCKS.set(blocks);
    });
}

fn one<T: Element<Acc = f32>>(problem: &Problem, finish: Finish<T>, tile: Tile, blocks: &mut [f32]) {
    let (left, rest) = blocks.split_at_mut(tile.rows * WIDENED_DEPTH);
    let (right, sums) = rest.split_at_mut(tile.cols * WIDENED_DEPTH);
    let sums = &mut sums[..tile.rows * tile.cols];
    if problem.k == 0 {
        sums.fill(0.0);
    }
    for start in (0..problem.k).step_by(WIDENED_DEPTH) {
        let depth = WIDENED_DEPTH.min(problem.k - start);
        let a = widen::<T>(problem.a.at(tile.batch, tile.row, start), tile.rows, depth, left);
        let b = widen::<T>(problem.b.at(tile.batch, start, tile.col), depth, tile.cols, right);
        let out = Matrix::contiguous(sums.as_mut_ptr(), tile.cols);
        // SAFETY: the blocks and the sums have these sizes and strides.
        unsafe { direct::multiply::<f32>([tile.rows, tile.cols, depth], [out, a, b], [1.0; 2], (start > 0).then_some(false)) };
    }
    let tile_of = |matrix: Matrix| matrix.at(tile.batch, tile.row, tile.col);
    let (out, addend) = (tile_of(problem.out), problem.addend.map(tile_of));
    vectorize(Store { out, addend, cols: tile.cols, sums, finish });
}

/// Widens `rows` × `cols` elements into `to`; the contiguous dimension stays contiguous.
fn widen<T: Element<Acc = f32>>(from: Matrix, rows: usize, cols: usize, to: &mut [f32]) -> Matrix {
    let size = size_of::<T>() as isize;
    if from.col != size && from.row == size {
        return widen::<T>(from.transposed(), cols, rows, to).transposed();
    }
    widen_rows::<T>(from, cols, &mut to[..rows * cols]);
    Matrix::contiguous(to.as_mut_ptr(), cols)
}

leaf! {
    fn widen_rows<T: Element<Acc = f32>>(matrix: Matrix, cols: usize, to: &mut [f32]) {
        let dense = matrix.col == size_of::<T>() as isize;
        for (row, line) in to.chunks_exact_mut(cols).enumerate() {
            let from = matrix.at(0, row, 0);
            let data = from.data.cast::<T>().cast_const();
            if dense && const { T::IS_CONVERTED_IN_RUNS } && data.is_aligned() {
                // SAFETY: the block lies inside an operand of the launch, which is readable.
                T::load_run(unsafe { std::slice::from_raw_parts(data, cols) }, line);
            } else if dense {
                for (col, value) in line.iter_mut().enumerate() {
                    // SAFETY: the block lies inside an operand of the launch, which is readable.
                    *value = unsafe { from.data.cast::<T>().wrapping_add(col).read_unaligned() }.load();
                }
            } else {
                for (col, value) in line.iter_mut().enumerate() {
                    // SAFETY: as above.
                    *value = unsafe { from.at(0, 0, col).data.cast::<T>().read_unaligned() }.load();
                }
            }
        }
    }
}

/// Writes rows of sums to a tile of the output.
pub struct Store<'a, T: Element> {
    pub out: Matrix,
    pub addend: Option<Matrix>,
    pub cols: usize,
    pub sums: &'a [T::Acc],
    pub finish: Finish<T>,
}

impl<T: Element> Store<'_, T> {
    /// True if the elements of a row are contiguous.
    #[inline(always)]
    fn is_dense(matrix: Matrix) -> bool {
        matrix.col == size_of::<T>() as isize
    }

    /// Writes contiguous rows, where the rows of the addend, if any, are contiguous too.
    #[inline(always)]
    fn dense_rows(&self) {
        let Finish { alpha, beta } = self.finish;
        for (row, line) in self.sums.chunks_exact(self.cols).enumerate() {
            let out = self.out.at(0, row, 0).data.cast::<T>();
            let Some(addend) = self.addend else {
                for (col, &sum) in line.iter().enumerate() {
                    // SAFETY: the tile lies inside the output, as the launch guarantees.
                    unsafe { out.wrapping_add(col).write_unaligned(T::store(alpha.mul(sum))) };
                }
                continue;
            };
            let addend = addend.at(0, row, 0).data.cast::<T>();
            for (col, &sum) in line.iter().enumerate() {
                // SAFETY: the tile lies inside the addend, as the launch guarantees.
                let own = unsafe { addend.wrapping_add(col).read_unaligned() }.load();
                // SAFETY: as above.
                unsafe { out.wrapping_add(col).write_unaligned(T::store(alpha.mul(sum).add(beta.mul(own)))) };
            }
        }
    }
}

impl<T: Element> Leaf for Store<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        if Self::is_dense(self.out) && self.addend.is_none_or(Self::is_dense) {
            return self.dense_rows();
        }
        for (row, line) in self.sums.chunks_exact(self.cols).enumerate() {
            for (col, &sum) in line.iter().enumerate() {
                let addend = self.addend.map(|addend| addend.at(0, row, col));
                // SAFETY: the tile lies inside the output and the addend, as the launch guarantees.
                unsafe { self.finish.write(self.out.at(0, row, col), addend, sum) };
            }
        }
    }
}
