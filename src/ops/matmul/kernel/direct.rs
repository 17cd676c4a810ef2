//! Products of f32, f64 and complex numbers by the `gemm` crate, which takes any strides.

use gemm::Parallelism;

use super::problem::{Matrix, Problem};
use super::tile::{self, Tile, Tiling};
use crate::tensor::{Element, Number};

/// Runs a product of `T`, one of the types that `gemm` supports.
pub fn run<T: Element + Number>(problem: &Problem) {
    let scalars = problem.scalars::<T>();
    tile::for_each(problem, Tiling::GEMM, &|tile| one::<T>(problem, scalars, tile));
}

fn one<T: Element>(problem: &Problem, scalars: [T; 2], tile: Tile) {
    problem.place_addend(tile);
    let addend = problem.addend.map(|addend| addend.conj);
    let out = problem.out.at(tile.batch, tile.row, tile.col);
    let operands = [out, problem.a.at(tile.batch, tile.row, 0), problem.b.at(tile.batch, 0, tile.col)];
    // SAFETY: the operands have these sizes and strides, as the launch guarantees; no two threads have the same tile.
    unsafe { multiply([tile.rows, tile.cols, problem.k], operands, scalars, addend) };
}

/// `out = alpha * (a @ b)`, and `+ beta * out` if `adds` is given: whether the conjugate of out is added.
///
/// # Safety
/// The matrices [out, a, b] must have the sizes (m, n), (m, k) and (k, n), and elements of `T`. Nothing else may use out meanwhile.
pub unsafe fn multiply<T: Element>([m, n, k]: [usize; 3], [out, a, b]: [Matrix; 3], [beta, alpha]: [T; 2], adds: Option<bool>) {
    let step = |bytes: isize| bytes / size_of::<T>() as isize;
    let ([out_col, out_row], [a_col, a_row]) = ([out.col, out.row].map(step), [a.col, a.row].map(step));
    let ([b_col, b_row], conj) = ([b.col, b.row].map(step), adds.unwrap_or(false));
    let (data, left, right) = (out.data.cast(), a.data.cast_const().cast(), b.data.cast_const().cast());
    // SAFETY: the caller's promise.
    unsafe {
        gemm::gemm::<T>(
            m,
            n,
            k,
            data,
            out_col,
            out_row,
            adds.is_some(),
            left,
            a_col,
            a_row,
            right,
            b_col,
            b_row,
            beta,
            alpha,
            conj,
            a.conj,
            b.conj,
            Parallelism::None,
        );
    }
}
