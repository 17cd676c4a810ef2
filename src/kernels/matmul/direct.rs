//! Products of f32, f64 and complex numbers by the `gemm` crate, which takes any strides.

use gemm::Parallelism;

use super::problem::{Matrix, Problem};
use super::tile::{self, Tile, Tiling};
use crate::tensor::dtype::Element;
use crate::tensor::loops::index_space::Steps;
use crate::tensor::loops::strided::{self, StridedPtr};
use crate::tensor::number::Number;

/// Runs a product of `T`, one of the types that `gemm` supports.
pub fn run<T: Element + Number>(problem: &Problem) {
    let scalars = problem.scalars::<T>();
    tile::for_each(problem, Tiling::GEMM, &|tile| one::<T>(problem, scalars, tile));
}

fn one<T: Element>(problem: &Problem, [beta, alpha]: [T; 2], tile: Tile) {
    let tile_of = |matrix: Matrix| matrix.at(tile.batch, tile.row, tile.col);
    let out = tile_of(problem.out);
    if let (Some(addend), false) = (problem.addend.map(tile_of), problem.in_place) {
        let at = |matrix: Matrix| StridedPtr { data: matrix.data, steps: Steps { col: matrix.col, row: matrix.row } };
        // SAFETY: the launch guarantees both operands; the addend is not the output, and PyTorch refuses partial overlap.
        unsafe { strided::copy(at(addend), at(out), size_of::<T>(), tile.cols, tile.rows) };
    }
    let (a, b) = (problem.a.at(tile.batch, tile.row, 0), problem.b.at(tile.batch, 0, tile.col));
    let step = |bytes: isize| bytes / size_of::<T>() as isize;
    // SAFETY: the operands have these sizes and strides, as the launch guarantees; no two threads have the same tile.
    unsafe {
        gemm::gemm::<T>(
            tile.rows,
            tile.cols,
            problem.k,
            out.data.cast(),
            step(out.col),
            step(out.row),
            problem.addend.is_some(),
            a.data.cast_const().cast(),
            step(a.col),
            step(a.row),
            b.data.cast_const().cast(),
            step(b.col),
            step(b.row),
            beta,
            alpha,
            problem.addend.is_some_and(|addend| addend.conj),
            a.conj,
            b.conj,
            Parallelism::None,
        );
    }
}
