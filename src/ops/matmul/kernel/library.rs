//! Products by PyTorch's own libraries, which read the operands in place. They multiply 16 bit floats by AMX where the processor
//! has it, with sums in float32 that are rounded once. Small products of 16 bit floats go to BLAS (Intel's MKL), which returns the
//! float32 sums to be rounded here; large bfloat16 ones go to oneDNN, which rounds by itself but has a higher overhead for each
//! call.
//!
//! The shim registers a [`Gemm`] function through the C ABI at load; without one, as in `cargo test`, this module takes nothing.
//! [`takes`] alone decides for which processors and sizes the library is used, by the measurements of
//! `benches/operators/products.py`.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::problem::{Finish, Matrix, Problem};
use super::tile::{self, Tile, Tiling};
use super::widened::Store;
use crate::tensor::prelude::*;
use crate::tuning::products::{
    LIBRARY_COLUMNS_AMD, LIBRARY_MULTIPLY_ADDS, LIBRARY_MULTIPLY_ADDS_16_BIT, LIBRARY_ROWS_AMD, LIBRARY_TILE_SIDE,
    ONEDNN_MULTIPLY_ADDS, TILE_MULTIPLY_ADDS, TILE_MULTIPLY_ADDS_16_BIT, VECTOR_MULTIPLY_ADDS,
};

/// A matrix as BLAS takes it: column-major with a leading dimension in elements. With `transposed` the described matrix is the
/// transpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Columns {
    pub data: *mut c_void,
    pub transposed: bool,
    pub leading: i32,
}

/// `out = alpha * (a @ b) + beta * out` with out (m, n), a (m, k), b (k, n).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Gemm {
    /// The dtype of a and b.
    pub dtype: i32,
    /// The dtype of `out`: float32 for the sums of 16 bit floats, else that of a and b.
    pub out_dtype: i32,
    pub m: i32,
    pub n: i32,
    pub k: i32,
    pub a: Columns,
    pub b: Columns,
    pub out: Columns,
    pub alpha: f64,
    pub beta: f64,
}

struct Library {
    dtypes: DTypeSet,
    run: Box<dyn Fn(&Gemm) -> bool + Send + Sync>,
}

static LIBRARY: OnceLock<Library> = OnceLock::new();

/// Registers the library: `run` computes products of these dtypes as [`Gemm`] describes, and returns false if it cannot. Only the
/// first call has an effect.
pub fn register(dtypes: DTypeSet, run: impl Fn(&Gemm) -> bool + Send + Sync + 'static) {
    let _ = LIBRARY.set(Library { dtypes, run: Box::new(run) });
}

/// The processors on which the library was measured. On others it may run code for old processors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Processor {
    /// Intel Xeon with AVX-512 and AMX (Sapphire Rapids).
    Intel,
    /// AMD EPYC with AVX-512 and its bfloat16 products (Zen 4), which no older processor of AMD has.
    Amd,
}

/// Rows at a distance of a multiple of this, in bytes, share cache sets of the first-level cache; `gemm` copies them slowly.
const PAGE: isize = 4096;

/// True if the library computes the product.
pub fn takes(problem: &Problem) -> bool {
    let Some(processor) = processor_of(problem.dtype) else { return false };
    let work = problem.m * problem.n * problem.k;
    let (least, most) = (problem.m.min(problem.n), problem.m.max(problem.n));
    let is_worth_it = match (processor, problem.dtype) {
        (Processor::Intel, DType::Float | DType::Double) => work >= LIBRARY_MULTIPLY_ADDS || least == 1,
        (Processor::Intel, DType::Half) => work >= LIBRARY_MULTIPLY_ADDS_16_BIT && least > 1,
        (Processor::Intel, DType::BFloat16) => work >= LIBRARY_MULTIPLY_ADDS_16_BIT && most > 1,
        (Processor::Amd, DType::Float | DType::Double) => {
            work >= LIBRARY_MULTIPLY_ADDS
                && least > 1
                && (least <= LIBRARY_ROWS_AMD && most >= LIBRARY_COLUMNS_AMD || has_rows_in_pages(problem))
        }
        _ => false,
    };
    is_worth_it && operands(&upright(problem)).is_some()
}

/// True if the distance between rows or columns of an operand is a multiple of [`PAGE`].
fn has_rows_in_pages(problem: &Problem) -> bool {
    [problem.a, problem.b].iter().any(|matrix| [matrix.row, matrix.col].iter().any(|&stride| stride != 0 && stride % PAGE == 0))
}

/// The processor, if the library takes the dtype and was measured on it.
fn processor_of(dtype: DType) -> Option<Processor> {
    let is_there = LIBRARY.get().is_some_and(|library| library.dtypes.contains(dtype)) && simd::isa() == Isa::Avx512;
    is_there.then(|| if simd::is_intel() { Processor::Intel } else { Processor::Amd })
}

/// Nanoseconds of one thread for a multiply-add, if the library takes the dtype.
pub fn product_cost(dtype: DType) -> Option<f64> {
    match (processor_of(dtype)?, dtype) {
        (Processor::Intel, DType::BFloat16) => Some(0.003),
        (Processor::Intel, DType::Half) => Some(0.015),
        _ => None,
    }
}

/// The product, transposed if necessary so that its output is column-major.
fn upright(problem: &Problem) -> Problem {
    let size = problem.dtype.size() as isize;
    if problem.out.row == size && problem.m > 1 { *problem } else { problem.transposed() }
}

/// A matrix of `rows` x `cols` as BLAS takes it, if its strides allow that.
fn columns(matrix: Matrix, rows: usize, cols: usize, size: usize) -> Option<Columns> {
    let leading = |inner: usize, outer: usize, near: isize, far: isize| {
        let elements = far / size as isize;
        let fits = (near == size as isize || inner == 1) && (outer == 1 || far % size as isize == 0 && elements >= inner as isize);
        let leading = if outer == 1 { inner as isize } else { elements };
        if fits { i32::try_from(leading.max(1)).ok() } else { None }
    };
    let found = |transposed| move |leading| Columns { data: matrix.data.cast(), transposed, leading };
    let upright = leading(rows, cols, matrix.row, matrix.col).map(found(false));
    upright.or_else(|| leading(cols, rows, matrix.col, matrix.row).map(found(true)))
}

/// The operands [out, a, b] of a product, if BLAS can take their sizes and strides.
fn operands(problem: &Problem) -> Option<[Columns; 3]> {
    let Problem { m, n, k, .. } = *problem;
    let size = problem.dtype.size();
    if k == 0 || [m, n, k].into_iter().any(|count| i32::try_from(count).is_err()) {
        return None;
    }
    let out = columns(problem.out, m, n, size).filter(|out| !out.transposed)?;
    Some([out, columns(problem.a, m, k, size)?, columns(problem.b, k, n, size)?])
}

/// Runs a product that [`takes`] accepts.
pub fn run(problem: &Problem) -> Result<(), Error> {
    let problem = &upright(problem);
    let is_done = match problem.dtype {
        DType::Float => in_place::<f32>(problem, TILE_MULTIPLY_ADDS),
        DType::Double => in_place::<f64>(problem, TILE_MULTIPLY_ADDS),
        DType::BFloat16 if is_large(problem) => in_place::<half::bf16>(problem, TILE_MULTIPLY_ADDS_16_BIT),
        DType::Half => rounded::<half::f16>(problem),
        DType::BFloat16 => rounded::<half::bf16>(problem),
        other => return Err(Error::new(format!("the library's products do not take {other:?}"))),
    };
    if is_done { Ok(()) } else { Err(Error::new("PyTorch's library did not make a matrix product")) }
}

fn is_large(problem: &Problem) -> bool {
    let Problem { m, n, k, .. } = *problem;
    m as f64 * n as f64 * k as f64 >= ONEDNN_MULTIPLY_ADDS
}

/// Computes one tile's product into `out`; returns whether the library did it.
fn multiply(problem: &Problem, tile: Tile, (out, out_dtype): (Columns, DType), alpha: f64, beta: f64) -> bool {
    let size = problem.dtype.size();
    let (a, b) = (problem.a.at(tile.batch, tile.row, 0), problem.b.at(tile.batch, 0, tile.col));
    let parts = columns(a, tile.rows, problem.k, size).zip(columns(b, problem.k, tile.cols, size));
    let (a, b) = parts.expect("parts of operands lie as the operands do");
    let [m, n, k] = [tile.rows, tile.cols, problem.k].map(|count| count as i32);
    let library = LIBRARY.get().expect("a product that the library takes");
    let (dtype, out_dtype) = (problem.dtype as i32, out_dtype as i32);
    (library.run)(&Gemm { dtype, out_dtype, m, n, k, a, b, out, alpha, beta })
}

/// Computes into the output itself, to which the addend is copied first; returns whether every tile was computed.
fn in_place<T: Element>(problem: &Problem, worth: f64) -> bool {
    let is_done = AtomicBool::new(true);
    let [beta, alpha] = problem.scalars::<f64>();
    let worth = if problem.m.min(problem.n) == 1 { VECTOR_MULTIPLY_ADDS } else { worth };
    tile::for_each(problem, Tiling { worth, ..Tiling::GEMM }, &|tile| {
        problem.place_addend(tile);
        let out = problem.out.at(tile.batch, tile.row, tile.col);
        let beta = if problem.addend.is_some() { beta } else { 0.0 };
        let out = columns(out, tile.rows, tile.cols, size_of::<T>()).expect("a part of the output lies as the output does");
        is_done.fetch_and(multiply(problem, tile, (out, T::DTYPE), alpha, beta), Ordering::Relaxed);
    });
    is_done.into_inner()
}

/// Computes float32 sums, then scales them, adds the addend and rounds; returns whether every tile was computed.
fn rounded<T: Element<Acc = f32>>(problem: &Problem) -> bool {
    let is_done = AtomicBool::new(true);
    let [beta, alpha] = problem.scalars::<f32>();
    tile::for_each(problem, Tiling { side: LIBRARY_TILE_SIDE, worth: TILE_MULTIPLY_ADDS_16_BIT, ..Tiling::GEMM }, &|tile| {
        let mut memory = Memory::of(tile.rows * tile.cols * size_of::<f32>());
        let data = memory.data();
        let sums = Columns { data: data.cast(), transposed: false, leading: tile.rows as i32 };
        is_done.fetch_and(multiply(problem, tile, (sums, DType::Float), 1.0, 0.0), Ordering::Relaxed);
        let sums: &[f32] = memory.numbers(tile.rows * tile.cols);
        // The output is column-major, so the rows of its transpose are contiguous.
        let tile_of = |matrix: Matrix| matrix.at(tile.batch, tile.row, tile.col).transposed();
        let (out, addend) = (tile_of(problem.out), problem.addend.map(tile_of));
        vectorize(Store { out, addend, cols: tile.rows, sums, finish: Finish::<T> { beta, alpha } });
    });
    is_done.into_inner()
}
